"""Q05: how much the database reads for a caller of few documents must not follow what is hidden from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from case_support import doc, only

from context_engine import Engine
from context_engine.db._sync.store import Transaction
from context_engine.model import LEGS
from context_engine.retrieval.compose import Statement

HIDDEN, SEEN = 3_000, 30
_TABLES = {"document", "chunk", "embedding"}


@pytest.fixture(scope="module")
def crowded(library: Callable[..., Engine]) -> Engine:
    """Many hidden documents with words of their own, a few that the caller sees."""
    hidden = [doc(f"h{at}", f"otter kernel common words {at}", ["bo"]) for at in range(HIDDEN)]
    seen = [doc(f"s{at}", f"a heron by the river {at}", ["ada"]) for at in range(SEEN)]
    return library("many hidden", [*hidden, *seen])


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], Any]], int]]:
    """Count the rows of documents that the statements of a call read, those that a filter throws away among them."""
    run = Transaction.run
    counted: list[int] = []

    def watched(self: Transaction, *statements: Statement, **options: bool) -> Any:
        for statement in statements:
            if "visible_" in statement.text:
                explained = Statement(
                    "EXPLAIN (ANALYZE, FORMAT JSON) " + statement.text, statement.params, statement.settings
                )
                [[(plans,)]] = run(self, explained)
                counted.append(_read(plans[0]["Plan"]))
        return run(self, *statements, **options)

    def count(call: Callable[[], Any]) -> int:
        counted.clear()
        call()
        assert counted, "nothing was read"
        return sum(counted)

    monkeypatch.setattr(Transaction, "run", watched)
    yield count


def _read(plan: dict[str, Any]) -> int:
    own = 0
    if plan.get("Relation Name") in _TABLES or plan["Node Type"] == "Bitmap Index Scan":
        thrown = sum(plan.get(name, 0) for name in ("Rows Removed by Filter", "Rows Removed by Index Recheck"))
        own = round((plan["Actual Rows"] + thrown) * plan["Actual Loops"])
    return own + sum(_read(child) for child in plan.get("Plans", ()))


@pytest.mark.parametrize("leg", LEGS[:3])
@pytest.mark.parametrize("query", ["otter", "ottter", "kernel common words", "common kernal"])
def test_q05_work_follows_the_visible_rows(
    query: str, leg: Any, crowded: Engine, rows_read: Callable[[Callable[[], Any]], int]
) -> None:
    def ask(text: str) -> int:
        return rows_read(lambda: crowded.search(text, principals=["ada"], weights=only(leg)))

    nonsense = ask(" ".join("qzx" + word for word in query.split()))
    assert ask(query) <= nonsense + SEEN
    assert nonsense <= 12 * SEEN


@pytest.mark.parametrize("leg", LEGS[:3])
def test_q05_the_measure_sees_the_work_of_those_who_see_much(
    leg: Any, crowded: Engine, rows_read: Callable[[Callable[[], Any]], int]
) -> None:
    assert rows_read(lambda: crowded.search("otter", principals=["bo"], weights=only(leg))) > HIDDEN
