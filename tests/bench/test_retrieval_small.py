"""The retrieval and text benchmarks run end to end; how good or fast anything is, is not tested."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.retrieval.compare import compare, measure
from benchmarks.retrieval.sets import half_of

CHECKOUT = Path(__file__).parents[2]
TEXTS = {
    "k": "A kernel schedules processes.",
    "c": "A compiler turns text into code.",
    "o": "Otters swim in rivers.",
    "h": "Herons wade in shallow rivers.",
}
ASKED = {"q1": ("which animal swims", "o"), "q2": ("scheduling of processes", "k"), "q3": ("wading birds", "h")}


def run(*command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def beir(folder: Path) -> None:
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": key, "title": "", "text": text} for key, text in TEXTS.items()]
    queries = [{"_id": key, "text": text} for key, (text, _) in ASKED.items()]
    for name, items in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, items)))
    judged = ["query-id\tcorpus-id\tscore", *(f"{key}\t{found}\t1" for key, (_, found) in ASKED.items())]
    (folder / "qrels" / "test.tsv").write_text("\n".join(judged))


def multihop(folder: Path) -> None:
    folder.mkdir()
    passages = [{"title": key, "text": text} for key, text in TEXTS.items()]
    asked = [
        {
            "question": text,
            "paragraphs": [
                {"title": key, "paragraph_text": TEXTS[key], "is_supporting": key == found} for key in TEXTS
            ],
        }
        for text, found in ASKED.values()
    ]
    (folder / f"{folder.name}_corpus.json").write_text(json.dumps(passages))
    (folder / f"{folder.name}.json").write_text(json.dumps(asked))


@pytest.mark.timeout(600)
def test_the_public_layouts(new_database: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    beir(tmp_path / "small")
    multihop(tmp_path / "hops")
    out = tmp_path / "out"
    places = ["--beir", str(tmp_path / "small"), "--multihop", str(tmp_path / "hops"), "--out", str(out)]
    again = ["--database-url", new_database(empty=True), "--work-dir", str(tmp_path / "kept")]
    for _ in range(2):
        run("benchmarks.retrieval", "--sets", "", "--configurations", "lexical", "--final", *places, *again)
        means = rows(out / "means.csv")
        assert {row["set"] for row in means} == {"small", "hops"}
        assert {row["configuration"] for row in means} == {"dense", "hybrid", "lexical"}
        assert {row["ndcg"] for row in means if row["queries"] == "all" and row["configuration"] != "lexical"} == {
            "1.0000"
        }
        assert {row["verdict"] for row in rows(out / "comparisons.csv")} <= {"ahead", "tie", "behind"}
        assert "hybrid.png" in (out / "results.md").read_text()


@pytest.mark.timeout(600)
def test_speed_and_growth(new_database: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sizes = ["--beside", "400", "--growth", "300,400", "--questions", "2", "--rounds", "1"]
    run("benchmarks.text", *sizes, "--database-url", new_database(empty=True), "--out", str(tmp_path))
    assert len(rows(tmp_path / "growth.csv")) == 2 * 2 * 2 * 3
    assert len(rows(tmp_path / "beside.csv")) == 5 * 2 * 3
    assert (tmp_path / "growth.png").stat().st_size > 0
    assert "whole text" in (tmp_path / "results.md").read_text()


def test_measures_by_hand() -> None:
    found = measure(["x", "a", "y", "b"], {"a": 1.0, "b": 1.0})
    assert found["ndcg"] == pytest.approx((0.6309298 + 0.4306766) / (1 + 0.6309298))
    assert (found["recall"], found["mrr"]) == (1.0, 0.5)
    assert measure([], {"a": 1.0}) == {"ndcg": 0.0, "recall": 0.0, "mrr": 0.0}


def test_verdicts() -> None:
    better = [0.5 + 0.01 * (number % 7) for number in range(40)]
    assert compare(better, [0.4] * 40).verdict == "ahead"
    assert compare([0.4] * 40, better).verdict == "behind"
    assert compare([0.4, 0.6] * 20, [0.6, 0.4] * 20).verdict == "tie"
    assert compare(better, better).difference == 0


def test_halves_are_fixed_and_even() -> None:
    halves = [half_of("scifact", str(number)) for number in range(2_000)]
    assert 900 < halves.count("held") < 1_100
    assert [half_of("scifact", key) for key in ("1", "3", "5", "13")] == ["held", "tune", "tune", "held"]
