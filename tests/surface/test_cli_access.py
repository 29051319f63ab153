"""`documents`, `delete`, `acl` and `policy`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from context_engine import ACL, PUBLIC, Document, Engine, Policy, document_id
from context_engine.access import normalise_acl

ONE, TWO = document_id("s", "one"), document_id("s", "two")


@pytest.fixture
def stored(new_engine: Any, database_url: str) -> Engine:
    """Two documents, on the database that the commands work on."""
    engine: Engine = new_engine(database_url)
    engine.set_policy("board", ACL(["group:board"], deny=["group:rep"]))
    documents = [
        Document(name="One", text="one", external_id="one", source="s", acl=["group:a"]),
        Document(name="Two", text="two", external_id="two", source="s", acl=Policy("board")),
    ]
    assert not engine.ingest(documents).failed
    return engine


@pytest.mark.usefixtures("stored")
def test_documents_of_a_caller(cli: Any) -> None:
    output = cli("documents", "--as", "group:a").output
    assert str(ONE) in output and str(TWO) not in output
    assert "1 of 1 documents" in output
    assert "0 of 0 documents" in cli("documents", "--anonymous").output
    assert "1 of 2 documents: --limit 0 lists all" in cli("documents", "--trusted", "--limit", 1).output
    assert "2 of 2 documents\n" in cli("documents", "--trusted", "--limit", 0).output
    assert "0 of 0 documents" in cli("documents", "--trusted", "--source", "t").output


@pytest.mark.usefixtures("stored")
def test_documents_for_programs(cli: Any) -> None:
    listed = json.loads(cli("documents", "--trusted", "--json").stdout)
    assert {item["id"] for item in listed} == {str(ONE), str(TWO)}
    assert set(listed[0]) == {"id", "name", "source", "external_id", "metadata"}
    assert json.loads(cli("documents", "--anonymous", "--json").stdout) == []
    assert len(json.loads(cli("documents", "--trusted", "--json", "--limit", 1).stdout)) == 1
    [only] = json.loads(cli("documents", "--as", "group:a", "--json").stdout)
    assert only["name"] == "One"


@pytest.mark.usefixtures("stored")
def test_show_acl(cli: Any) -> None:
    assert cli("acl", "show", ONE).output == "any of group:a\n"
    named = ("--source", "s", "--external-id", "two")
    words = "policy board: any of group:board, except who has group:rep\n"
    assert cli("acl", "show", *named).output == words
    answer = json.loads(cli("acl", "show", *named, "--json").stdout)
    assert answer == {"document_id": str(TWO), "acl": {"policy": "board"}}


@pytest.mark.parametrize(
    ("options", "acl", "words"),
    [
        (["--acl", "a", "--acl", "b"], ACL(["a", "b"]), "any of a, b"),
        (["--public"], ACL([PUBLIC]), "everyone"),
        (
            ["--public", "--require", "r", "--deny", "d"],
            ACL([PUBLIC], ["r"], ["d"]),
            "everyone, who also has r, except who has d",
        ),
        (["--policy", "board"], Policy("board"), "policy board"),
    ],
)
def test_set_acl(cli: Any, stored: Engine, options: list[str], acl: Any, words: str) -> None:
    assert cli("acl", "set", ONE, *options).output == words + "\n"
    assert normalise_acl(stored.get_acl(ONE)) == normalise_acl(acl)


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--acl", "a", "--public"],
        ["--policy", "board", "--acl", "a"],
        ["--policy", "board", "--deny", "d"],
        ["--deny", "d"],
        ["--require", "r"],
    ],
)
def test_an_acl_that_is_unclear_is_a_usage_error(cli: Any, options: list[str]) -> None:
    cli("acl", "set", ONE, *options, exits=2)
    assert cli("acl", "show", ONE).output == "any of group:a\n"


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("named", [[], ["--source", "s"], ["--external-id", "one"], [str(ONE), "--source", "s"]])
def test_a_document_is_named_one_way(cli: Any, named: list[str]) -> None:
    assert "name a document" in cli("acl", "show", *named, exits=2).stderr
    assert "name a document" in cli("delete", *named, exits=2).stderr


@pytest.mark.usefixtures("stored")
def test_ids_that_are_none(cli: Any) -> None:
    for word in ("x", "1.5", "９", "9" * 30):
        assert "(invalid_input)" in cli("acl", "show", word, exits=2).stderr
    assert cli("acl", "show", 5, exits=2).stderr == "error: no such document (not_found)\n"
    assert "(not_found)" in cli("acl", "set", 5, "--public", exits=2).stderr
    assert "no policy is named" in cli("acl", "set", ONE, "--policy", "x", exits=2).stderr


def test_policies(cli: Any, stored: Engine) -> None:
    assert "board   any of group:board, except who has group:rep" in cli("policy", "list").output
    cli("policy", "set", "open", "--public")
    assert cli("policy", "set", "board", "--acl", "group:b").output == "board: any of group:b\n"
    assert normalise_acl(stored.policies()["board"]) == normalise_acl(["group:b"])
    listed = json.loads(cli("policy", "list", "--json").stdout)
    assert listed["open"] == {"public": True, "allow": [], "require": [], "deny": []}
    assert "say who may read" in cli("policy", "set", "closed", exits=2).stderr


def test_no_policies(cli: Any) -> None:
    assert cli("policy", "list").output == "no policies\n"
    assert json.loads(cli("policy", "list", "--json").stdout) == {}


def test_delete(cli: Any, stored: Engine) -> None:
    assert cli("delete", ONE, "--", ONE).output == "1 deleted\n"
    result = cli("delete", ONE, TWO, exits=1)
    assert result.stdout == "1 deleted\n" and result.stderr == "1 not found\n"
    assert stored.policies(), "a policy stays without documents"


@pytest.mark.usefixtures("stored")
def test_delete_by_external_id(cli: Any) -> None:
    assert cli("delete", "--source", "s", "--external-id", "one").output == "1 deleted\n"
    assert "1 not found" in cli("delete", "--source", "s", "--external-id", "one", exits=1).output
