"""The index is rebuilt under searches and writes, and what would be wrong then is noticed."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT))

from benchmarks.vector.rebuild import TOP_K, Made, Model, Run  # noqa: E402


@pytest.mark.timeout(300)
def test_rebuilds_among_searches_and_writes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.vector.rebuild", "--documents", "1200", "--threshold", "200"]
    done = subprocess.run(
        [*command, "--rate", "20", "--rebuilds", "2", "--out", str(tmp_path)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "rebuild.json").read_text())
    assert found["rebuilds"] == 2 and found["wrong or failed"] == 0
    assert found["compared, exact"] and found["compared, ivf"] and found["writes"]


@pytest.mark.parametrize(
    ("answer", "noticed"),
    [
        (list(range(TOP_K)), []),
        ([*range(TOP_K - 1), 30], ["row 30", "exact:"]),
        ([*range(TOP_K - 1)], ["9 rows", "exact:"]),
    ],
)
def test_a_wrong_answer_is_noticed(answer: list[int], noticed: list[str]) -> None:
    """Rows 0 to 19 are of the caller's group, best first; row 30 is of another."""
    question = Made().embed_query("question 0")
    vectors = np.stack([question * (1 - row / 100) for row in range(40)])
    model = Model(vectors, np.repeat([0, 1], 20), np.arange(40))
    run = Run("", argparse.Namespace(threshold=100), model)
    report = SimpleNamespace(legs={"ann": SimpleNamespace(route="exact")})
    hits = [SimpleNamespace(document=SimpleNamespace(id=row)) for row in answer]

    class Engine:
        async def search(self, *_: Any, **__: Any) -> Any:
            return SimpleNamespace(report=report, hits=hits)

    asyncio.run(run._search(Engine(), 0))  # type: ignore[arg-type] # noqa: SLF001
    assert len(run.notes.wrong) == len(noticed)
    assert all(text.startswith(start) for text, start in zip(run.notes.wrong, noticed, strict=True))
