"""The benchmark of row-level policies runs end to end, and finds every answer the same."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.timeout(400)
def test_made_up_corpus(new_database: Callable[..., str], tmp_path: Path) -> None:
    url = new_database(empty=True)
    command = [sys.executable, "-m", "benchmarks.row_security", "--synthetic", "--documents", "500", "--questions", "1"]
    done = subprocess.run(
        [*command, "--database-url", url, "--out", str(tmp_path)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with (tmp_path / "raw.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["state"] for row in rows} == {"owner", "policies", "policies, @@ leakproof"}
    assert len(rows) == 3 * 6 * 2 * 4
    assert sum(int(row["unequal"]) for row in rows) == 0
    assert json.loads((tmp_path / "facts.json").read_text())["documents"] == 500
    assert "**0** of 96" in (tmp_path / "results.md").read_text()
    with psycopg.connect(url) as connection:
        left = connection.execute(
            "SELECT (SELECT count(*) FROM pg_policy), (SELECT count(*) FROM pg_roles WHERE rolname ~ 'row_security'),"
            " (SELECT proleakproof FROM pg_proc WHERE oid = 'ts_match_vq(tsvector, tsquery)'::regprocedure)"
        ).fetchone()
    assert left == (0, 0, False)
