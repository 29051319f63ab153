"""The command: what it says to people, to programs, in a page, and how it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exposure_world import World, make_world
from typer.testing import CliRunner

from context_engine import Document
from context_engine.models.hashing import HashingEmbedder
from context_engine.surfaces.cli.app import app
from context_engine.surfaces.cli.options import Session

Fill = Callable[..., str]
HNSW = "hnsw (embedding vector_cosine_ops)"


def cli(*arguments: object, exits: int = 0, url: str | None = None) -> Any:
    chosen = ["--database-url", url] if url else []
    result = CliRunner().invoke(
        app,
        ["check-acl-exposure", *chosen, *map(str, arguments)],
        obj=Session(embedder=HashingEmbedder(32)),
        env={"COLUMNS": "220", "TERM": "dumb", "NO_COLOR": "1"},
    )
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == exits, result.output
    return result


def test_for_people(fill: Fill) -> None:
    output = cli("--samples", 4, url=fill(make_world(1_500), index=HNSW)).output
    for words in (
        "public.docs",
        "1,500 rows with vectors (plain), distance <=>, index vec (hnsw), permission in acl (array), 4 ACL values",
        "questions drawn from the caller's own rows",
        "questions drawn from rows that the caller may not see",
        "a random set of the same size",
        "Latency, p50 in ms",
        "near own",
        "Verdict",
        "CREATE INDEX CONCURRENTLY ON public.docs USING gin (acl)",
        "Shape of the permissions",
        "who may read was taken from acl by its name",
    ):
        assert words in output, words
    assert "SECRET" not in output


def test_acl_values_are_hashed_unless_they_may_be_shown(world: World, fill: Fill, tmp_path: Path) -> None:
    url = fill(world)
    names = re.compile("tight|half|some(?!thing)")
    page = tmp_path / "report.html"
    arguments = ("--samples", 2, "--html", page, "--as", "tight", "--as", "half")
    told = [cli(*arguments, url=url).output, page.read_text(), cli(*arguments, "--json", url=url).stdout]
    for text in told:
        assert not names.search(text) and re.search("acl-[0-9a-f]{6}", text) and "SECRET" not in text
    first, second = (re.findall("acl-[0-9a-f]{6}", cli(*arguments, url=url).output)[0] for _ in range(2))
    assert first != second, "the key is another each time, so a hash says nothing"
    shown = [cli(*arguments, "--show-acl", url=url).output, page.read_text()]
    assert all("tight + half" in text for text in shown)


def test_for_programs(fill: Fill) -> None:
    url = fill(make_world(1_500), index=HNSW)
    answer = json.loads(cli("--samples", 3, "--as", "tight", "--show-acl", "--json", url=url).stdout)
    assert answer["target"]["acl_column"] == "acl" and answer["target"]["vector_index"]["name"] == "vec"
    assert len(answer["callers"]) == 1 and answer["passed"] is True
    for each in answer["callers"]:
        assert {"own", "others", "random"} <= set(each["figures"])
        for name, figures in each["figures"]["own"].items():
            assert name in answer["methods"] and 0 <= figures["recall"] <= 1
        assert each["finding"]["level"] in ("no gap", "slight", "gap", "severe")
        assert each["layout"]["lift"] > 0


def test_the_status_follows_fail_under(fill: Fill) -> None:
    url = fill(make_world(1_500), index=HNSW)
    failing = cli("--samples", 4, "--method", "after-1x", "--fail-under", 0.9, exits=1, url=url).output
    assert "failed: a caller has recall below 0.9 (filter after, 1×)" in failing
    cli("--samples", 4, "--method", "routed", "--fail-under", 1, url=url)
    answer = json.loads(
        cli("--samples", 4, "--method", "after-1x", "--fail-under", 0.9, "--json", exits=1, url=url).stdout
    )
    assert answer["passed"] is False and answer["fail_under"] == 0.9


class _Page(HTMLParser):
    """Collects tags, and what a page would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "data", "srcset")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_caller_who_was_mistyped_is_no_pass(fill: Fill, tmp_path: Path) -> None:
    url = fill(make_world(60))
    result = cli("--as", "no such group", "--fail-under", 0.5, "--json", exits=2, url=url)
    assert "no row is open to the callers" in result.stderr
    result = cli("--html", tmp_path / "nowhere" / "page.html", exits=2, url=url)
    assert "there is no folder" in result.stderr


def test_the_page_needs_nothing_else(fill: Fill, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    cli("--samples", 3, "--html", page, "--show-acl", url=fill(make_world(1_500), index=HNSW))
    text = page.read_text()
    found = _Page(text)
    assert not found.open and not found.fetched
    assert not re.search(r"url\(|@import|<script|<link", text)
    assert text.count('<svg viewBox="0 0 560 300"') >= 5, "recall of three kinds, empty shares, latency"
    assert "nan" not in text and "inf" not in text.replace("info", "")
    assert found.tags.count("circle") > 50


def test_hostile_acl_values_stay_text(fill: Fill, tmp_path: Path) -> None:
    evil = '<script>alert("x")</script>\x1b[2J'
    vectors = make_world(200).vectors
    url = fill(World(vectors, [[evil] if row % 2 else ["[bold]b"] for row in range(200)]))
    page = tmp_path / "report.html"
    output = cli("--samples", 2, "--show-acl", "--html", page, url=url).output
    assert "\x1b" not in output and "[bold]b" in output
    assert "<script" not in page.read_text()


def test_callers_and_questions_from_files(fill: Fill, tmp_path: Path) -> None:
    url = fill(make_world(500))
    callers = tmp_path / "callers.jsonl"
    callers.write_text('["tight", "one"]\n\n["half"]\n')
    vectors = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    np.save(tmp_path / "questions.npy", vectors)
    (tmp_path / "questions.jsonl").write_text("\n".join(json.dumps(row.tolist()) for row in vectors))
    answers = [
        json.loads(cli("--callers", callers, "--queries", tmp_path / name, "--show-acl", "--json", url=url).stdout)
        for name in ("questions.npy", "questions.jsonl")
    ]
    assert [each["values"] for each in answers[0]["callers"]] == [["tight", "one"], ["half"]]
    figures = [[each["figures"]["given"]["after-1x"]["recall"] for each in answer["callers"]] for answer in answers]
    assert figures[0] == figures[1]
    assert answers[0]["callers"][0]["figures"]["given"]["planned"]["questions"] == 3


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("callers", b"tight", "a JSON list on each line"),
        ("callers", b'"tight"', "a JSON list of the ACL values"),
        ("callers", b"[]", "a JSON list of the ACL values"),
        ("queries", b"[1, 2]\n[1]", "holds no vectors"),
        ("queries", b'[["a"]]', "holds no vectors"),
        ("queries", b"[]", "at least one row of finite numbers"),
        ("queries", b"[1, NaN]", "at least one row of finite numbers"),
    ],
)
def test_files_that_are_none(world: World, fill: Fill, tmp_path: Path, name: str, content: bytes, said: str) -> None:
    file = tmp_path / "file.jsonl"
    file.write_bytes(content)
    assert said in cli(f"--{name}", file, exits=2, url=fill(world)).output.replace("\n", " ")


def test_a_context_engine_database_needs_no_option(new_engine: Any, database_url: str, cli_of: Any) -> None:
    engine = new_engine(database_url)
    engine.ingest([Document(text=f"text {n}", external_id=str(n), acl=[f"g{n % 2}"]) for n in range(60)])
    for output in (cli_of(database_url, "--samples", "2"), cli("--samples", 2, url=database_url).output):
        assert "60 rows with vectors (context-engine)" in output
        assert "None of 8 questions of 2 callers lost a row (as the engine searches)" in output


@pytest.fixture
def cli_of() -> Callable[..., str]:
    """Run the command with the URL before it, as the other commands have it."""

    def run(url: str, *arguments: str) -> str:
        result = CliRunner().invoke(
            app, ["--database-url", url, "check-acl-exposure", *arguments], env={"COLUMNS": "220", "NO_COLOR": "1"}
        )
        assert result.exit_code == 0, result.output
        return result.output

    return run
