"""Cases about what is hidden: while it is written, beside what is seen, in totals and errors, after a revocation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from case_support import LEGS, doc, found, key, only, ranking

from context_engine import ACL, PUBLIC, TRUSTED, Count, Engine, NotFound, Policy, SearchResult
from context_engine.db._sync.store import Store, Transaction
from context_engine.model import AclLike

NewEngine = Callable[..., Engine]
SIXTEEN = {"ingest": {"chunk_tokens": 16}}


def parts(name: str, count: int) -> str:
    return "\n\n".join(f"Part {part} of {name} on otters and how they swim." for part in range(count))


def plain(result: SearchResult) -> Any:
    return result.hits, replace(result.report, timings_ms={})


def everything(engine: Engine, principals: Any) -> Any:
    """All that a caller can be answered, but for timings."""
    searches = [plain(engine.search("otters part", principals=principals, weights=only(leg))) for leg in LEGS]
    listed = list(engine.list_documents(principals=principals))
    texts = [engine.get_document(item.id, principals=principals).text for item in listed]
    return searches, listed, texts, engine.count(principals=principals)


CHANGES: dict[str, tuple[AclLike | None, AclLike]] = {
    "a private document": (None, ["ada"]),
    "a document of a policy": (None, Policy("team")),
    "a public document made private, in a new version": (PUBLIC, ["ada"]),
    "a private document handed on, in a new version": (["bo"], ["ada"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_p35_nothing_is_seen_while_it_is_written(
    change: str, new_engine: NewEngine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each step of the ingest, other callers search: they see what was before, until all of it is new."""
    before_acl, acl = CHANGES[change]
    writer, reader = new_engine(database_url, **SIXTEEN), new_engine(database_url, **SIXTEEN)
    writer.set_policy("team", ["ada"])
    writer.ingest([doc("other", parts("other", 2), PUBLIC)])
    if before_acl is not None:
        writer.ingest([doc("one", parts("one, as it was", 3), before_acl)])
    callers: list[Any] = [[], ["ada"], ["bo"], TRUSTED]
    before = [everything(reader, caller) for caller in callers]
    seen: list[list[Any]] = []
    looking = False

    def look() -> None:
        nonlocal looking
        if not looking:
            looking = True
            seen.append([everything(reader, caller) for caller in callers])
            looking = False

    def looked(method: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **named: Any) -> Any:
            look()
            return method(*args, **named)

        return step

    for owner, names in ((Transaction, ("run", "copy", "commit")), (Store, ("query",))):
        for name in names:
            monkeypatch.setattr(owner, name, looked(getattr(owner, name)))
    writer.ingest([doc("one", parts("one, anew", 4), acl)])
    monkeypatch.undo()
    after = [everything(reader, caller) for caller in callers]
    assert len(seen) > 8
    assert after != before
    for at, _ in enumerate(callers):
        states = [snapshot[at] for snapshot in seen]
        turned = [state == after[at] for state in states]
        assert turned == sorted(turned), "old, then new, and never back"
        assert all(state in (before[at], after[at]) for state in states)
    assert found(reader.search("anew", principals=["bo"], weights=only("fts"))) == []


def test_p36_between_two_visible_chunks_nothing_hidden_comes_along(new_engine: NewEngine) -> None:
    """Documents that follow one another are not each other's neighbours: each answers for itself."""
    engine = new_engine(**SIXTEEN)
    engine.ingest(doc(f"d{at:02}", parts(f"number {at}", 3), ["ada"] if at % 2 else ["bo"]) for at in range(20))
    own = {key(f"d{at:02}") for at in range(1, 20, 2)}
    every = sorted(own | {key(f"d{at:02}") for at in range(0, 20, 2)})
    result = engine.search("otters swim", principals=["ada"], documents=every, top_k=100)
    assert {hit.document.id for hit in result.hits} == own
    assert all(hit.position in range(3) and "otters" in hit.text for hit in result.hits)
    assert result.report.visible_chunks == 30
    for identifier in every:
        if identifier in own:
            document = engine.get_document(identifier, principals=["ada"])
            assert len(document.chunks) == 3 and document.text == "".join(document.chunks)
            for near in (identifier - 1, identifier + 1):
                with pytest.raises(NotFound):
                    engine.get_document(near, principals=["ada"])
        else:
            with pytest.raises(NotFound):
                engine.get_document(identifier, principals=["ada"])
    assert {item.id for item in engine.list_documents(principals=["ada"])} == own


def refusal(engine: Engine, identifier: int, principals: list[str]) -> Any:
    with pytest.raises(NotFound) as caught:
        engine.get_document(identifier, principals=principals)
    error = caught.value
    return type(error), error.code, str(error).encode(), error.args, error.__cause__


def test_p37_a_hidden_document_answers_as_a_missing_one(new_engine: NewEngine) -> None:
    engine = new_engine(**SIXTEEN)
    engine.ingest(
        [
            doc("seen", parts("what is seen", 2), ["bo"]),
            doc("hidden", parts("what is hidden", 2), ["ada"], source="vault", metadata={"code": "zephyr"}),
        ]
    )
    hidden, missing = key("hidden", "vault"), 4242
    for who in ([], ["bo"], ["nobody"]):
        assert refusal(engine, hidden, who) == refusal(engine, missing, who)
        named: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({"documents": [hidden]}, {"documents": [missing]}),
            ({"documents": [key("seen"), hidden]}, {"documents": [key("seen"), missing]}),
            ({"sources": ["vault"]}, {"sources": ["no such source"]}),
            ({"metadata": {"code": "zephyr"}}, {"metadata": {"code": "no such code"}}),
        ]
        for one, other in named:
            assert engine.count(principals=who, **one) == engine.count(principals=who, **other)
            for query in ("otters", "zephyr", "hiden", "what is hidden"):
                assert plain(engine.search(query, principals=who, **one)) == plain(
                    engine.search(query, principals=who, **other)
                )
    assert engine.count(principals=["bo"]) == Count(1, 2)
    assert engine.count(principals=[]) == Count(0, 0)
    assert engine.search("hidden", principals=["bo"], weights=only("fts")).report.visible_chunks == 2


@pytest.mark.parametrize("how", ["set_acl", "policy", "delete", "re-ingest"])
def test_p38_the_same_question_by_others_and_after_a_revocation(how: str, new_engine: NewEngine) -> None:
    """Ada, Bo, Ada is put out, Ada: on one connection, with one question."""
    engine = new_engine(storage={"pool_size": 1})
    engine.set_policy("team", ["ada"])
    engine.ingest(
        [
            doc("ada", "an otter of hers", Policy("team") if how == "policy" else ["ada"]),
            doc("bo", "an otter of his", ["bo"]),
            doc("both", "an otter of theirs", ["ada", "bo"]),
        ]
    )

    def ask(who: str) -> list[str]:
        return sorted(found(engine.search("an otter", principals=[who])))

    bo = engine.search("an otter", principals=["bo"])
    assert (ask("ada"), ask("bo"), ask("ada")) == (["ada", "both"], ["bo", "both"], ["ada", "both"])
    changes: dict[str, Callable[[], Any]] = {
        "set_acl": lambda: engine.set_acl(key("ada"), ["cy"]),
        "policy": lambda: engine.set_policy("team", ACL(allow=["ada", "cy"], deny=["ada"])),
        "delete": lambda: engine.delete(key("ada")),
        "re-ingest": lambda: engine.ingest([doc("ada", "an otter of hers", ["cy"])]),
    }
    changes[how]()
    assert (ask("ada"), ask("bo"), ask("cy")) == (
        ["both"],
        ["bo", "both"],
        [] if how == "delete" else ["ada"],
    )
    assert ranking(engine.search("an otter", principals=["bo"])) == ranking(bo)
