"""The benchmark of the vector leg runs end to end; how fast anything is, is not tested."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
DATA = Path(os.environ.get("CONTEXT_ENGINE_DATA", CHECKOUT.parent / "shared" / "data"))
LAYOUTS = ("random", "clustered", "owned")
PLAIN = {"planner", "iterative", "after-1x", "after-10x", "after-50x", "unfiltered-ef40", "unfiltered-ef800"}
SHARES = ("0.01", "0.5", "1")


def run(url: str, folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "benchmarks.vector", "--small", "--questions", "4", "--database-url", url]
    done = subprocess.run(
        [*command, "--work-dir", str(folder / "work"), "--out", str(folder / "out"), *options],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lines(folder: Path) -> list[dict[str, str]]:
    with (folder / "out" / "summary.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def raw(folder: Path) -> bytes:
    return gzip.decompress((folder / "out" / "raw.csv.gz").read_bytes())


@pytest.mark.timeout(300)
def test_all_of_it(new_database: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    url = new_database(empty=True)
    options = ["--synthetic", "--shares", *SHARES]
    run(url, tmp_path, *options)
    summary = lines(tmp_path)
    asked = {(line["layout"], line["target"], line["method"]) for line in summary}
    methods = {*PLAIN, "ours", *(["faiss-filtered-ef400"] if importlib.util.find_spec("faiss") else [])}
    for layout in LAYOUTS:
        for method in methods:
            assert len([key for key in asked if key[0] == layout and key[2] == method]) == len(SHARES)
    ours = [line for line in summary if line["method"] in ("ours", "exact") and line["layout"] in LAYOUTS]
    assert {line["note"] for line in ours} == {"exact", "ivf"}
    assert {(line["empty"], line["short"]) for line in ours} == {("0", "0")}
    assert {float(line["recall@10"]) for line in ours if line["note"] == "exact"} == {1.0}
    assert all(float(line["recall@10"]) > 0.5 for line in ours)
    # A comparator that never lost a row would not have been filtered at all.
    assert any(int(line["short"]) for line in summary if line["method"] == "after-1x")
    assert {line["method"] for line in summary if line["layout"] == "wide"} == {"ours", "wide"}
    assert len({line["n"] for line in summary if line["layout"] == "growth"}) == 4
    facts = json.loads((tmp_path / "out" / "facts.json").read_text())
    assert facts["filled"]["vec_random"]["index"]["seconds"] > 0
    assert {size["table"] for size in facts["sizes"]} >= {"code", "centroid", "embedding", "item"}
    page = (tmp_path / "out" / "results.md").read_text()
    assert "at equal recall" in page
    for name in ("recall.png", "latency.png", "growth.png"):
        assert name in page
        assert (tmp_path / "out" / name).stat().st_size > 0
    before = raw(tmp_path)
    assert "vec_random" not in run(url, tmp_path, *options, "--resume")
    assert raw(tmp_path) == before


@pytest.mark.timeout(300)
@pytest.mark.skipif(not (DATA / "debian-packages").is_dir(), reason="the data folder is not here")
def test_real_vectors_and_a_part_of_it(new_database: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    options = ["--data", str(DATA), "--layouts", "owned", "--skip-hnsw", "--skip-faiss", "--no-growth"]
    run(new_database(empty=True), tmp_path, *options)
    summary = lines(tmp_path)
    assert {line["method"] for line in summary} == {"ours", "exact"}
    assert {line["layout"] for line in summary} == {"owned"}
    assert {float(line["recall@10"]) for line in summary if line["note"] == "exact"} == {1.0}
