"""Faults in what changes access are seen too: by a commit that fails, or by a difference after it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import scenario
from promise import EMBEDDER, Database, compare_databases, compare_reads, compare_with_oracle, key_of, settings_of

from context_engine import ACL, PUBLIC, Document, Engine, Policy, StoreError, access, sql
from context_engine.db._sync import maintain
from context_engine.engine._sync import acls, ingest
from context_engine.model import AclLike
from context_engine.testing import Oracle

Edit = Callable[[str], str]
CALLERS = [["a"], ["b", "c"], ["cafe\u0301"]]


def without_cte(name: str) -> Edit:
    """Take one step out of a statement of several."""
    return lambda text: re.sub(rf",\n{name} AS \(.*?\n\)", "", text, count=1, flags=re.DOTALL)


def swap(old: str, new: str) -> Edit:
    return lambda text: text.replace(old, new)


def nothing(text: str) -> str:
    return text.replace("WHERE ", "WHERE false AND ", 1)


FAULTS: dict[str, tuple[str, Edit]] = {
    "set_acl.sql leaves the chunks as they were": ("write/set_acl", without_cte("chunks")),
    "set_acl.sql leaves the embeddings as they were": ("write/set_acl", without_cte("embeddings")),
    "set_acl.sql leaves the tally as it was": ("write/set_acl", without_cte("tallied")),
    "set_acl.sql changes nothing": (
        "write/set_acl",
        swap("UPDATE {schema}.document\nSET acl_id = %(acl_id)s,", "UPDATE {schema}.document\nSET"),
    ),
    "ingest leaves the chunks in the old class": ("write/move_chunks", nothing),
    "ingest leaves the embeddings in the old class": ("write/move_embeddings", nothing),
    "ingest keeps the old ACL": ("write/update_documents", swap("SET acl_id = given.acl_id, ", "SET ")),
    "a policy keeps its old readers": ("write/replace_members", without_cte("dropped")),
    "a policy gets no new readers": (
        "write/replace_members",
        swap("FROM wanted\nON CONFLICT", "FROM wanted WHERE false\nON CONFLICT"),
    ),
    "a policy stays public": ("write/claim_policy", swap("SET public = excluded.public", "SET public = acl.public")),
    "an ACL is stored without its denials": (
        "write/intern_acls",
        swap("JOIN created USING (digest)", "JOIN created USING (digest) WHERE member.kind <> 'deny'"),
    ),
    "an ACL is stored without its requirements": (
        "write/intern_acls",
        swap("JOIN created USING (digest)", "JOIN created USING (digest) WHERE member.kind <> 'require'"),
    ),
    "a deletion changes nothing": (
        "write/delete_documents",
        swap("DELETE FROM {schema}.document\nWHERE", "DELETE FROM {schema}.document\nWHERE false AND"),
    ),
    "a deletion leaves the tally as it was": ("write/delete_documents", without_cte("tallied")),
}


def _edited(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statement, edit = FAULTS[fault]
    edited = edit(sql.load(statement))
    assert edited != sql.load(statement), "the fault no longer fits the statement"
    for module in (maintain, acls, ingest):
        monkeypatch.setattr(module, "load", lambda name: edited if name == statement else sql.load(name))


@pytest.fixture(scope="module")
def databases(new_promise_database: Callable[[], Database]) -> list[Database]:
    return [new_promise_database() for _ in range(2)]


def _change(engine: Engine) -> tuple[list[Document], dict[str, AclLike]]:
    """Change who may read what, in every way there is; returns what must hold then."""
    documents = {item.external_id or "": item for item in scenario.DOCUMENTS}
    policies: dict[str, AclLike] = {"board": ACL(allow=["a"], require=["a"]), "open": ["b"], "team": ["b"]}
    changes: dict[str, AclLike] = {
        "s0": ["b"],
        "s1": ACL(allow=PUBLIC, deny=["c"]),
        "s3": Policy("open"),
        "s8": ["caf\u00e9"],
        "s9": Policy("team"),
    }
    engine.set_policy("open", PUBLIC)
    engine.set_policy("team", ["a"])
    for name, acl in changes.items():
        engine.set_acl(key_of(documents[name]), acl)
        documents[name] = replace(documents[name], acl=acl)
    for name, acl in policies.items():
        engine.set_policy(name, acl)
    for name in ("s2", "s4"):
        documents[name] = replace(documents[name], acl=["c"])
        report = engine.ingest([documents[name]])
        if report.failed:
            raise StoreError(str(report.failed[0].error))
    engine.delete(key_of(documents.pop("s6")))
    return list(documents.values()), policies


def _seen(databases: list[Database]) -> list[str]:
    everything, visible = databases
    engine = everything.fill(scenario.DOCUMENTS, scenario.POLICIES)
    try:
        documents, policies = _change(engine)
    except StoreError as error:
        assert "23503" in str(error), error
        return ["the commit fails: a copy was left behind"]
    oracle = Oracle(documents, EMBEDDER, settings_of("default"), policies)
    found: list[Any] = []
    for caller in CALLERS:
        visible.fill(replace(item, acl=[]) for item in oracle.visible(caller))
        found += compare_databases(everything, visible, caller, scenario.ASKS[:2], ["default"])
        found += compare_reads(everything, visible, caller, [], documents)
        found += compare_with_oracle(everything, {"default": oracle}, caller, scenario.ASKS[:1])
    return sorted({item.check.removesuffix(" hits").removesuffix(" report") for item in found})


def test_without_a_fault_nothing_is_seen(databases: list[Database]) -> None:
    assert _seen(databases) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_write_is_seen(
    fault: str,
    databases: list[Database],
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    _edited(fault, monkeypatch)
    seen = _seen(databases)
    record_property(fault, ", ".join(seen))
    assert seen


@pytest.mark.parametrize("fault", ["names are compared byte by byte", "names are compared without case"])
def test_a_fault_in_the_code_is_seen(
    fault: str,
    databases: list[Database],
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    def normalise(value: str) -> str:
        return value if "byte" in fault else value.replace("a", "A").casefold().replace("c", "b")

    class Unicode:
        @staticmethod
        def normalize(form: str, value: str) -> str:
            return normalise(value)

    monkeypatch.setattr(access, "unicodedata", Unicode)
    seen = _seen(databases)
    record_property(fault, ", ".join(seen))
    assert seen
