"""The benchmark of what permissions cost runs end to end, holds, and notices a filter that comes after."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.acl_recall import __main__ as command
from benchmarks.acl_recall import corpus, layouts, ways
from benchmarks.acl_recall.measure import ALONE, ASKED_EXACT, IN_QUERY
from benchmarks.acl_recall.oracle import Neighbours
from benchmarks.acl_recall.ways import LEGS, Answer, Desk

from context_engine.testing.words import other_spellings

CHECKOUT = Path(__file__).parents[2]
CHUNKS, QUESTIONS = 1_200, 12


def run(url: str, folder: Path, *options: str) -> str:
    asked = [sys.executable, "-m", "benchmarks.acl_recall", "--small", "--synthetic", "--database-url", url]
    done = subprocess.run(
        [*asked, "--work-dir", str(folder / "work"), "--out", str(folder / "out"), *options],
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


def facts(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "out" / "facts.json").read_text())


@pytest.mark.timeout(600)
def test_it_holds_and_goes_on(new_database: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    url = new_database(empty=True)
    assert "random/10%" in run(url, tmp_path, "--layouts", "random")
    first = gzip.decompress((tmp_path / "out" / "raw.csv.gz").read_bytes())
    told = run(url, tmp_path)
    assert "random/10%" not in told and "rules/anonymous" in told
    assert gzip.decompress((tmp_path / "out" / "raw.csv.gz").read_bytes()).startswith(first)

    summary = lines(tmp_path)
    callers = {(line["layout"], line["caller"]) for line in summary}
    assert len(callers) == 3 * 2 + 7
    held = [line for line in summary if line["method"] in (IN_QUERY, ASKED_EXACT)]
    exact = [line for line in held if float(line["exact"]) == 1]
    for leg in LEGS:
        assert {(line["layout"], line["caller"]) for line in exact if line["leg"] == leg} == callers
    # nan: no chunk of this caller's answers any of the questions, in the reference neither.
    assert {line["recall"] for line in exact} - {"nan"} == {"1.0"}
    assert {(line["order"], line["scores"]) for line in exact} == {("1.0", "1.0")}
    assert {line["layout"] for line in held if float(line["exact"]) == 0} >= {"random", "clustered"}
    # A comparator that never lost a row would not have been filtered at all.
    narrow = [line for line in summary if line["caller"] == "10%" and line["layout"] in ("random", "clustered")]
    assert all(float(x["recall"]) < 0.5 for x in narrow if x["method"] == "after-1x" and x["leg"] != "fts all")
    # Everyone's first ten are what a caller who sees everything is given.
    assert {x["recall"] for x in summary if x["caller"] == "100%" and x["method"] == "after-1x"} == {"1.0"}

    oracles = facts(tmp_path)["oracle"]
    assert len(oracles) == 4 * len(callers)
    assert all(row["agree"] == row["questions"] == QUESTIONS for row in oracles)
    assert sum(row["hits"] for row in oracles) > 2_000
    page = (tmp_path / "out" / "results.md").read_text()
    for name in ("recall.png", "latency.png"):
        assert name in page
        assert (tmp_path / "out" / name).stat().st_size > 0
    run(url, tmp_path, "--page", "--against", str(tmp_path / "out"))
    assert facts(tmp_path)["against"]["apart"] == []


@pytest.mark.timeout(600)
def test_it_notices_a_filter_that_comes_after(
    new_database: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    made = corpus.synthetic(CHUNKS, QUESTIONS)
    layout = layouts.make("random", made, [0.1])
    rows = {key: row for row, key in enumerate(made.chunks.document_ids.tolist())}

    def after(self: Desk, schema: str, leg: str, place: int, caller: layouts.Caller, **_: Any) -> Answer:
        found = self.unfiltered(schema, leg, place, 500)
        kept = ways.kept(np.array([rows[key] for key in found.documents], dtype=int), layout.seen(caller, made))
        ids, documents, scores = (
            tuple(values[at] for at in kept) for values in (found.ids, found.documents, found.scores)
        )
        return Answer(ids, documents, scores, found.detail, True, found.route, found.ms)

    monkeypatch.setattr(Desk, "in_query", after)
    options = ["--layouts", "random", "--shares", "0.1", "--database-url", new_database(empty=True)]
    places = ["--work-dir", str(tmp_path / "work"), "--out", str(tmp_path / "out")]
    assert command.main(["--small", "--synthetic", *options, *places]) == 1
    summary = {(line["leg"], line["method"]): line for line in lines(tmp_path)}
    assert float(summary["fts any", ALONE]["recall"]) == 1
    for leg in ("fts any", "trgm", "hybrid"):
        found = summary[leg, IN_QUERY]
        assert float(found["recall"]) < 1 or float(found["order"]) < 1, leg
        assert float(found["scores"]) == 0, leg
    wrong = {row["leg"] for row in facts(tmp_path)["oracle"] if row["agree"] < row["questions"]}
    assert wrong >= {"fts any", "trgm"}
    assert ", 0 not equal" not in (tmp_path / "out" / "results.md").read_text()


def test_the_reference_of_a_layout_is_set_logic() -> None:
    made = corpus.synthetic(400, 4)
    rules = layouts.make("rules", made, [])
    seen = {caller.label: rules.seen(caller, made) for caller in rules.callers}
    assert 0 < seen["anonymous"].sum() < seen["1 team"].sum() < seen["3 teams"].sum()
    assert not (seen["3 teams"] & ~seen["3 teams, cleared"]).any()
    assert (seen["3 teams, cleared"] & ~seen["3 teams, denied"]).any()
    assert seen["10 teams, by document"].sum() < 100
    sources = {made.items[row].source for row in np.flatnonzero(seen["10 teams, by source"])}
    assert sources == {"source-1", "source-3"}


def test_neighbours_are_those_that_are_found_one_by_one() -> None:
    vocabulary = sorted({word for item in corpus.synthetic(40, 2).items for word in item.text.split()})
    near = Neighbours(vocabulary)
    for word in (vocabulary[3], vocabulary[7][:-1], "x" + vocabulary[11], vocabulary[5][::-1]):
        found = sorted((-similarity, other) for similarity, other in near.of(word))
        assert [(-score, other) for score, other in found] == other_spellings(word, vocabulary)


def test_a_folder_in_the_beir_layout(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    folder = tmp_path / "hotpotqa"
    (folder / "qrels").mkdir(parents=True)
    texts = {str(number): f"Document {number} is about subject {number}." for number in range(12)}
    passages = [json.dumps({"_id": key, "title": f"T{key}", "text": text}) for key, text in texts.items()]
    (folder / "corpus.jsonl").write_text("\n".join(passages))
    asked = [json.dumps({"_id": f"q{key}", "text": f'which "subject" is {key} -about'}) for key in ("3", "9")]
    (folder / "queries.jsonl").write_text("\n".join(asked))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq3\t3\t1\nq9\t9\t1\n")
    told: list[int] = []
    made = corpus.beir(folder, 6, 2, tmp_path, lambda done, _: told.append(done))
    assert {"3", "9"} <= {item.id for item in made.items} and len(made) == 6
    assert made.questions[0].text == "which subject is 3 about"
    assert made.vectors.shape == (6, 384)
    again = corpus.beir(folder, 6, 2, tmp_path, lambda done, _: told.append(done))
    assert (again.vectors == made.vectors).all() and told == [0, 6, 6]
