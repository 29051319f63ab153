"""`verify`, `explain`, `who-can` and `diff`."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from context_engine import ACL, PUBLIC, Document, Engine, Policy, document_id

ONE, TWO = document_id("s", "one"), document_id("s", "two")


@pytest.fixture
def stored(new_engine: Any, database_url: str) -> Engine:
    """Three documents, on the database that the commands work on."""
    engine: Engine = new_engine(database_url)
    engine.set_policy("board", ACL(["group:board"], deny=["group:rep"]))
    texts = {"one": ("an otter swims", PUBLIC), "two": ("an otter eats", Policy("board")), "three": ("a heron", ["a"])}
    documents = [
        Document(name=name.title(), text=text, external_id=name, source="s", acl=acl)
        for name, (text, acl) in texts.items()
    ]
    assert not engine.ingest(documents).failed
    return engine


@pytest.mark.usefixtures("stored")
def test_verify_holds(cli: Any) -> None:
    result = cli("verify", "--callers", 4, "--queries", 3, "--probe", "--seed", 3)
    assert "every answer is what the caller's documents alone would give" in result.output
    assert "anonymous" in result.output and "group:board" in result.output
    report = json.loads(cli("verify", "--as", "a", "--as", "group:board", "--query", "otter", "--json").stdout)
    assert report["ok"] is True
    [check] = report["callers"]
    assert check["principals"] == ["a", "group:board"] and check["documents"] == 3 and check["differences"] == []
    assert check["against"] == "copy" and check["probed"] is None
    views = json.loads(cli("verify", "--anonymous", "--copy-chunks", 0, "--json").stdout)
    assert views["callers"][0]["against"] == "views" and views["callers"][0]["principals"] == []


@pytest.mark.usefixtures("stored")
def test_verify_fails(cli: Any, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE context_engine.tally SET chunks = chunks + 1")
    result = cli("verify", "--anonymous", "--query", "otter", exits=1)
    assert "the promise is broken" in result.output and "report.visible_chunks: 2 instead of 1" in result.output
    report = json.loads(cli("verify", "--anonymous", "--json", exits=1).stdout)
    assert report["ok"] is False and report["callers"][0]["differences"]


@pytest.mark.usefixtures("stored")
def test_verify_needs_to_know_what_is_asked(cli: Any) -> None:
    cli("verify", "--as", "a", "--anonymous", exits=2)
    cli("verify", "--callers", 0, exits=2)
    cli("verify", "--trusted", exits=2)


def test_verify_without_the_right_to_make_a_schema(cli: Any, stored: Engine, database_url: str) -> None:
    role = "verify_reader"
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"DROP ROLE IF EXISTS {role}")
        admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}'")
        admin.execute(f"GRANT USAGE ON SCHEMA context_engine TO {role}")
        admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA context_engine TO {role}")
        try:
            url = database_url.replace("postgres@", f"{role}:{role}@", 1)
            if url == database_url:
                url = psycopg.conninfo.make_conninfo(database_url, user=role, password=role)
            result = cli("verify", url=url, exits=2)
        finally:
            admin.execute(f"DROP OWNED BY {role}")
            admin.execute(f"DROP ROLE {role}")
    last = result.stderr.splitlines()[-1]
    assert "verify needs a role that may create a schema" in last and last.endswith("(config)")


@pytest.mark.usefixtures("stored")
def test_explain(cli: Any) -> None:
    named = ("--source", "s", "--external-id", "two")
    hidden = cli("explain", "otter", *named, "--as", "group:rep").output
    assert hidden.startswith("not visible to this caller: the caller has none of the 1 principals it is open to")
    assert "policy board: any of group:board, except who has group:rep" in hidden
    assert "it denies group:rep, which the caller has" in hidden
    shown = cli("explain", "otter", TWO, "--as", "group:board").output
    assert shown.startswith("in the result, at rank ") and "chunk 0: returned at rank" in shown
    assert "left out" in cli("explain", "otter", TWO, "--trusted", "--only-source", "t").output
    assert "left out" in cli("explain", "otter", TWO, "--trusted", "--metadata", "year=2020").output
    assert cli("explain", "otter", 5, "--trusted", exits=2).stderr == "error: no such document (not_found)\n"
    cli("explain", "otter", TWO, exits=2)
    told = json.loads(cli("explain", "heron", TWO, "--as", "group:board", "--json").stdout)
    assert told["document"]["id"] == str(TWO) and told["access"]["policy"] == "board"
    assert told["access"]["acl"]["allow"] == ["group:board"]
    assert told["chunks"][0]["legs"]["fts"] == {
        "standing": "none",
        "rank": None,
        "score": None,
        "why": "it holds none of the question's words",
    }


@pytest.mark.usefixtures("stored")
def test_who_can(cli: Any) -> None:
    output = cli("who-can", TWO).output
    assert "any of group:board, except who has group:rep" in output and "board" in output
    told = json.loads(cli("who-can", "--source", "s", "--external-id", "one", "--json").stdout)
    assert told["policy"] is None and told["acl"]["public"] is True and told["document"]["id"] == str(ONE)
    assert "(not_found)" in cli("who-can", 5, exits=2).stderr


@pytest.mark.usefixtures("stored")
def test_diff(cli: Any) -> None:
    answer = cli("diff", "otter", "--as", "[]", "--as", '["group:board", "x"]')
    output = " ".join(answer.output.split())  # a narrow terminal folds cells
    assert "A: not visible: the caller has none of the 1 principals it is open to" in output
    assert "2 chunks; 1 and 2 chunks visible" in output
    told = json.loads(cli("diff", "otter", "--as", "a", "--trusted", "--json").stdout)
    rows = {row["document"]["external_id"]: row for row in told["rows"]}
    assert rows["one"]["a"] and rows["one"]["b"] and rows["two"]["a"] is None
    assert told["report_b"]["visible_chunks"] == 3
    for wrong in ([], ["--as", "a"], ["--as", "a", "--as", "b", "--trusted"], ["--as", "[", "--trusted"]):
        cli("diff", "otter", *wrong, exits=2)
    assert "(invalid_input)" in cli("diff", "otter", "--as", "[1]", "--trusted", exits=2).stderr
    assert "(invalid_input)" in cli("diff", "otter", "--as", "", "--trusted", exits=2).stderr


@pytest.mark.parametrize("command", ["verify", "explain", "who-can", "diff"])
def test_help(cli: Any, command: str) -> None:
    output = cli(command, "--help").output
    assert f"context-engine {command}" in output
