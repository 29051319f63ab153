"""`search`: hits for people and for programs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from context_engine import PUBLIC, Document, Engine
from context_engine.surfaces.cli.search import read_metadata, snippet
from context_engine.text.analyse import Analyser

WORDS = ("tide", "harbour", "lantern")


@pytest.fixture(autouse=True)
def _documents(new_engine: Any, database_url: str) -> None:
    engine: Engine = new_engine(database_url)
    documents = [
        Document(
            name=f"About the {word}",
            text=f"A page on the {word}. " + "Much else is said here. " * 30,
            external_id=word,
            source=f"source-{number}",
            acl=[PUBLIC] if number == 0 else [f"group:{number}"],
            metadata={"number": number, "word": word},
        )
        for number, word in enumerate(WORDS)
    ]
    assert not engine.ingest(documents).failed


def found(output: str) -> list[str]:
    return re.findall(r"^ *\d+\. About the (\w+)", output, re.M)


def test_hits_for_people(cli: Any) -> None:
    output = cli("search", "lantern", "--as", "group:2").output
    assert found(output)[0] == "lantern"
    assert "source-2 · lantern · " in output and " fts 1 " in output
    last = output.splitlines()[-1]
    assert re.search(r"fts bm25 \(1\).* · exact · 2 chunks visible · \d+ ms", last)


def test_each_caller_sees_their_own(cli: Any) -> None:
    query = "tide harbour lantern"
    assert set(found(cli("search", query, "--anonymous").output)) == {"tide"}
    assert set(found(cli("search", query, "--as", "group:1").output)) == {"tide", "harbour"}
    both = cli("search", query, "--as", "group:1", "--as", "group:2").output
    assert set(found(both)) == set(found(cli("search", query, "--trusted").output)) == set(WORDS)


@pytest.mark.parametrize(
    "caller",
    [(), ("--anonymous", "--trusted"), ("--as", "a", "--anonymous"), ("--as", "a", "--trusted")],
)
def test_exactly_one_caller(cli: Any, caller: tuple[str, ...]) -> None:
    for command in (("search", "tide"), ("documents",)):
        assert "say who asks" in cli(*command, *caller, exits=2).stderr


def test_hits_for_programs(cli: Any) -> None:
    answer = json.loads(cli("search", "harbour", "--trusted", "--top-k", "2", "--json").stdout)
    assert [hit["rank"] for hit in answer["hits"]] == [1, 2]
    hit = answer["hits"][0]
    assert hit["document"]["external_id"] == "harbour"
    assert hit["document"]["metadata"] == {"number": 1, "word": "harbour"}
    assert isinstance(hit["chunk_id"], str) and isinstance(hit["document"]["id"], str)
    assert hit["legs"]["fts"]["rank"] == 1
    assert answer["report"]["exact"] is True
    assert answer["report"]["visible_chunks"] == 3


def test_filters(cli: Any) -> None:
    def names(*options: str) -> set[str]:
        answer = cli("search", "tide harbour lantern", "--trusted", "--json", "--exact", *options)
        return {hit["document"]["external_id"] for hit in json.loads(answer.stdout)["hits"]}

    assert names("--source", "source-1", "--source", "source-2") == {"harbour", "lantern"}
    assert names("--metadata", "word=tide") == {"tide"}
    assert names("--metadata", "number=1") == {"harbour"}
    assert names("--metadata", 'number="1"') == set()
    assert names("--metadata", 'number={"gte": 1}', "--metadata", "word=lantern") == {"lantern"}


def test_metadata_values() -> None:
    assert read_metadata([]) is None
    assert read_metadata(["a=b=c", "d=", 'e="1"', "f=null"]) == {
        "a": "b=c",
        "d": "",
        "e": "1",
        "f": None,
    }


@pytest.mark.parametrize("pairs", [["novalue"], ["=x"], ["a=1", "a=2"]])
def test_metadata_that_is_refused(cli: Any, pairs: list[str]) -> None:
    options = [word for pair in pairs for word in ("--metadata", pair)]
    assert "--metadata" in cli("search", "x", "--trusted", *options, exits=2).stderr


def test_no_hits(cli: Any) -> None:
    output = cli("search", "tide", "--trusted", "--source", "nowhere").output
    assert output.startswith("no hits\n")
    assert json.loads(cli("search", "", "--anonymous", "--json").stdout)["hits"] == []


def test_errors_of_ours_are_one_line(cli: Any) -> None:
    result = cli("search", "x", "--trusted", "--top-k", "0", exits=2)
    assert result.stderr == "error: top_k must be a whole number from 1 to 10000 (invalid_input)\n"
    assert cli("search", "x", "--as", "", exits=2).stderr.startswith("error: ")


class _Broken:
    name, dim = "hashing-32", 32

    def embed_documents(self, texts: Any) -> Any:
        raise ConnectionError

    embed_query = embed_documents


def test_p21_a_failed_leg_is_told(cli: Any) -> None:
    output = cli("search", "tide", "--anonymous", embedder=_Broken()).output
    assert found(output) == ["tide"]
    assert "the ann leg failed" in output


def marked(text: str, question: str, width: int = 60) -> tuple[str, list[str]]:
    analyser = Analyser()
    terms = [lexeme for word in analyser.words(question) for lexeme, _ in word.lexemes]
    shown = snippet(text, terms, analyser, width)
    return shown.plain, [shown.plain[span.start : span.end] for span in shown.spans if span.style]


def test_snippet_marks_the_words_in_whatever_form() -> None:
    text, words = marked("Launches of the AX-4410-B: we launched it.", "launching ax4410b")
    assert text == "Launches of the AX-4410-B: we launched it."
    assert words == ["Launches", "AX-4410-B", "launched"]


def test_snippet_is_cut_around_the_best_place() -> None:
    text, words = marked(
        "filler " * 40 + "alpha " + "filler " * 40 + "alpha beta gamma " + "end " * 40,
        "alpha beta gamma",
    )
    assert words == ["alpha", "beta", "gamma"]
    assert text.startswith("…") and text.endswith("…")
    assert len(text) <= 62


def test_snippet_of_a_text_without_the_words_is_its_start() -> None:
    text, words = marked("nothing of that kind " * 20, "zebra")
    assert text.startswith("nothing of that") and text.endswith("…") and not words


def test_snippet_of_one_endless_word() -> None:
    text, _ = marked("x" * 5000, "zebra")
    assert len(text) <= 62
