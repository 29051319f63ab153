"""The local model notes nothing of the user: the runtime's telemetry is off before the runtime is loaded."""

import os
import subprocess
import sys
from pathlib import Path

CODE = """
from context_engine.models.local import minilm
print(minilm().embed_query("otter").shape)
"""


def test_nothing_is_left_in_the_home_folder(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
