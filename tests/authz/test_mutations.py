"""The promise test has teeth: each way of getting a permission wrong is seen by it.

Every mutation breaks one statement, or one step in Python, the way a mistake would; `pytest -v` prints which check
saw which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import scenario
from promise import Database
from scenario import Scenario

from context_engine import sql
from context_engine.engine._sync import spelling
from context_engine.retrieval import compose, fuzzy, legs

Edit = Callable[[str], str]


def drop_acl_line(relation: str) -> Edit:
    """Take the access condition out of one relation of visible.sql."""
    pattern = rf"{relation} AS NOT MATERIALIZED .*?\n\)"

    def edit(text: str) -> str:
        return re.sub(pattern, lambda found: re.sub(r"\n[^\n]*-- if scoped.*", "", found[0]), text, flags=re.DOTALL)

    return edit


def read_bare(text: str) -> str:
    """Let a statement read the tables themselves."""
    text = re.sub(r"(FROM|JOIN) visible_(\w+) AS", r"\1 {schema}.\2 AS", text)
    return re.sub(r"(FROM|JOIN) visible_(\w+)", r"\1 {schema}.\2 AS visible_\2", text)


def swap(old: str, new: str, count: int = -1) -> Edit:
    return lambda text: text.replace(old, new, count)


DENY = "member.kind = 'deny' AND member.principal IN (SELECT principal FROM asked)"
REQUIRE = "member.kind = 'require' AND member.principal NOT IN (SELECT principal FROM asked)"
STATEMENTS: dict[str, tuple[str, Edit]] = {
    "visible_document without its condition": ("visible", drop_acl_line("visible_document")),
    "visible_chunk without its condition": ("visible", drop_acl_line("visible_chunk")),
    "visible_embedding without its condition": ("visible", drop_acl_line("visible_embedding")),
    "visible_code without its condition": ("visible", drop_acl_line("visible_code")),
    "visible_word_tally without its condition": ("visible", drop_acl_line("visible_word_tally")),
    "visible.sql: or for and": ("visible", swap("AND acl_id", "OR acl_id")),
    **{f"{name} reads bare tables": (name, read_bare) for name in compose.READS},
    "scope.sql: deny ignored": ("read/scope", swap(DENY, "false")),
    "scope.sql: require ignored": ("read/scope", swap(REQUIRE, "false")),
    "scope.sql: deny or'ed": ("read/scope", swap("'deny' AND", "'deny' OR")),
    "scope.sql: any member is allowed": ("read/scope", swap(" WHERE kind = 'allow'", "")),
    "scope.sql: public ignored": ("read/scope", swap("WHERE public", "WHERE false")),
    "scope.sql: public for everything": ("read/scope", swap("WHERE public", "")),
    "scope.sql: hidden rows counted": (
        "read/scope",
        swap("tally.acl_id = ANY ((SELECT acls FROM listed)::int[])", "true"),
    ),
}


@pytest.fixture(scope="module")
def world(new_promise_database: Callable[[], Database]) -> Scenario:
    return scenario.build(new_promise_database)


@contextmanager
def mutated(monkeypatch: pytest.MonkeyPatch, statement: str, edit: Edit) -> Iterator[None]:
    """Let `compose` and the legs load an edited statement."""
    original = sql.load(statement)
    edited = edit(original)
    assert edited != original, "the mutation no longer fits the statement"

    def load(name: str) -> str:
        return edited if name == statement else sql.load(name)

    _forget_composed()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(compose, "load", load)
            patch.setattr(legs, "load", load)
            yield
    finally:
        _forget_composed()


def _forget_composed() -> None:
    cached = [value for value in vars(compose).values() if hasattr(value, "cache_clear")]
    assert len(cached) > 1, "compose no longer keeps what it composed?"
    for function in cached:
        function.cache_clear()


def checks_that_see(world: Scenario) -> list[str]:
    checks = (difference.check for difference in world.differences())
    return sorted({check.removesuffix(" hits").removesuffix(" report") for check in checks})


def test_the_scenario_passes_unmutated(world: Scenario) -> None:
    assert list(world.differences()) == []


@pytest.mark.parametrize("mutation", STATEMENTS)
def test_a_mutated_statement_is_seen(
    mutation: str,
    world: Scenario,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    if not mutation.startswith("legs/document_frequency_few"):
        monkeypatch.setattr(legs, "_FEW_TO_READ", 0)
        if mutation.startswith("legs/document_frequency reads"):
            monkeypatch.setattr(legs, "FEW_UNTALLIED", -1)
        assert checks_that_see(world) == []
    with mutated(monkeypatch, *STATEMENTS[mutation]):
        seen = checks_that_see(world)
    record_property(mutation, ", ".join(seen))
    assert seen


def _cut_before_filter(near: Any, frequencies: Any, at_most: int) -> list[fuzzy.Spelling]:
    everywhere = {spelling.word: 1 for spelling in near}
    kept = fuzzy.choose_spellings(near, everywhere, at_most)
    return [spelling for spelling in kept if frequencies.get(spelling.word)]


def _hidden_spellings(near: Any, frequencies: Any, at_most: int) -> list[fuzzy.Spelling]:
    for found in near:
        frequencies.setdefault(found.word, 1)
    return fuzzy.choose_spellings(near, frequencies, at_most)


@pytest.mark.parametrize("replacement", [_cut_before_filter, _hidden_spellings])
def test_spellings_that_only_hidden_chunks_hold_are_seen(
    replacement: Callable[..., Any],
    world: Scenario,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    # Few chunks have their own words compared; the lexicon, which knows hidden words, is asked for more.
    monkeypatch.setattr(legs, "FEW_CHUNKS", 0)
    assert checks_that_see(world) == []
    monkeypatch.setattr(spelling, "choose_spellings", replacement)
    seen = checks_that_see(world)
    record_property(f"choose_spellings: {replacement.__name__.strip('_').replace('_', ' ')}", ", ".join(seen))
    assert seen
