"""The latency benchmark runs end to end; how fast anything is, is not tested."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
DATA = Path(os.environ.get("CONTEXT_ENGINE_DATA", CHECKOUT.parent / "shared" / "data"))
METHODS = {"ours", "peer", "plain"}
PARTS = {"hybrid", "vector", "lexical", "trigram"}
CALLERS = {"0.1%", "1.0%", "10.0%", "50%", "all principals", "unlimited"}


def run(url: str, out: Path, *options: str) -> str:
    command = [sys.executable, "-m", "benchmarks.latency", "--small", "--database-url", url]
    done = subprocess.run(
        [*command, "--out", str(out), *options],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check(out: Path) -> None:
    raw = rows(out / "raw.csv")
    assert {"caller", "share", "class", "question", "method", "part", "ms", "timed_out"} <= set(raw[0])
    measured = {(row["caller"], row["class"], row["method"], row["part"]) for row in raw}
    wanted = {
        (caller, kind, method, part)
        for caller in CALLERS
        for kind in ("long", "short")
        for method in METHODS
        for part in PARTS
    }
    assert wanted <= measured
    summary = rows(out / "summary.csv")
    assert len(summary) == len(wanted)
    assert {"p50_ms", "p90_ms", "p95_ms", "ratio_p50", "ratio_p50_if_legs_at_once"} <= set(summary[0])
    assert all((row["ratio_p50"] != "") == (row["method"] != "ours") for row in summary)
    assert {"statement", "p50_ms", "chosen"} <= set(rows(out / "candidates.csv")[0])
    facts = json.loads((out / "facts.json").read_text())
    assert facts["ingest"]["documents"] == 2_000
    assert {size["table"] for size in facts["sizes"]} >= {"chunk", "embedding", "item"}
    page = (out / "results.md").read_text()
    assert "documents a second, without the embedder" in page
    for name in ("hybrid.png", "legs.png"):
        assert name in page
        assert (out / name).stat().st_size > 0


def test_made_up_corpus(new_database: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    url = new_database(empty=True)
    run(url, tmp_path, "--synthetic")
    check(tmp_path)
    before = (tmp_path / "raw.csv").read_text()
    assert "ingest" not in run(url, tmp_path, "--synthetic", "--resume")
    assert (tmp_path / "raw.csv").read_text() == before


@pytest.mark.skipif(not (DATA / "debian-packages").is_dir(), reason="the data folder is not here")
def test_debian_packages(new_database: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run(new_database(empty=True), tmp_path, "--data", str(DATA))
    check(tmp_path)
