"""The index is rebuilt under searches and writes, and what would be wrong then is noticed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT))

from benchmarks.vector.rebuild import TOP_K, Answer, Made, Model, Notes, Write  # noqa: E402


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
    compared = [name for name in found if name.startswith("mean recall@10")]
    assert [name.split(", ")[1] for name in compared] == ["exact", "ivf"] and found["writes"]


WRITES = [Write(3, 1, 1.0, 2.0), Write(25, 0, 5.0, 6.0)]
"""The fourth best row is taken from the caller, later another one given."""


@pytest.mark.parametrize(
    ("found", "started", "ended", "right"),
    [
        (range(TOP_K), 0.1, 0.9, True),
        ([0, 1, 2, *range(4, TOP_K + 1)], 0.1, 0.9, False),
        ([*range(TOP_K - 1), 30], 0.1, 0.9, False),
        (range(TOP_K - 1), 0.1, 0.9, False),
        (range(TOP_K), 0.1, 1.5, True),
        ([0, 1, 2, *range(4, TOP_K + 1)], 0.1, 1.5, True),
        (range(TOP_K), 2.5, 3.0, False),
        ([0, 1, 2, *range(4, TOP_K + 1)], 2.5, 9.0, True),
    ],
)
def test_a_wrong_answer_is_noticed(found: Sequence[int], started: float, ended: float, right: bool) -> None:
    """Rows 0 to 19 are of the caller's group, best first, the others of another."""
    question = Made().embed_query("question 0")
    vectors = np.stack([question * (1 - row / 100) for row in range(40)])
    model = Model(vectors, np.repeat([0, 1], 20), np.arange(40))
    answer = Answer("question 0", frozenset({0}), "exact", tuple(found), started, ended)
    notes = Notes()
    model.judge([answer], WRITES, notes)
    assert bool(notes.wrong) != right
