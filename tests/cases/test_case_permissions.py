"""Cases about who sees what, and when a change of that takes effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from case_embedders import Named
from case_support import LEGS, check_stored, doc, found, key, only, ranking

from context_engine import (
    ACL,
    PUBLIC,
    TRUSTED,
    Count,
    Document,
    Engine,
    InputError,
    NotFound,
    Policy,
)
from context_engine.db._sync.store import Transaction
from context_engine.model import AclLike, Principals
from context_engine.retrieval.compose import Statement

NewEngine = Callable[..., Engine]

FLIPS: list[tuple[AclLike, AclLike]] = [
    (PUBLIC, []),
    (PUBLIC, ["ada"]),
    ([PUBLIC], ["ada", "cy"]),
    (["ada", "bo"], ["ada"]),
    (PUBLIC, ACL(allow=PUBLIC, deny=["bo"])),
    (PUBLIC, ACL(allow=PUBLIC, require=["staff"])),
    (["bo"], ACL(allow=["bo"], deny=["bo"])),
    (PUBLIC, Policy("closed")),
    (Policy("open"), Policy("closed")),
    (Policy("open"), []),
]


def sees(engine: Engine, principals: Principals) -> set[str]:
    """What a caller gets from every leg and read path; they must agree."""
    answers: list[set[str]] = []
    for weights in (None, *map(only, LEGS)):
        for query in ("otter", "ottter") if weights != only("fts") else ("otter",):
            result = engine.search(query, principals=principals, weights=weights)
            answers.append(set(found(result)))
            assert result.report.visible_chunks == len(answers[-1])
    answers.append({item.external_id for item in engine.list_documents(principals=principals)})
    for answer in answers:
        assert answer == answers[0]
    counted = engine.count(principals=principals)
    assert counted == Count(len(answers[0]), len(answers[0]))
    return answers[0]


@pytest.mark.parametrize("threshold", [0, 1000])
@pytest.mark.parametrize(("before", "after"), FLIPS)
def test_p25_a_tightened_acl_holds_at_once(
    before: AclLike, after: AclLike, threshold: int, new_engine: NewEngine, database_url: str
) -> None:
    storage = {"ann_exact_threshold": threshold}
    engine = new_engine(database_url, storage=storage)
    reader = new_engine(database_url, storage=storage)
    engine.set_policy("open", PUBLIC)
    engine.set_policy("closed", ["ada"])
    engine.ingest([doc("flipped", "an otter swims", acl=before), doc("other", "an otter eats")])
    assert sees(reader, ["bo"]) == {"flipped", "other"}
    engine.set_acl(key("flipped"), after)
    assert sees(reader, ["bo"]) == {"other"}
    assert sees(reader, TRUSTED) == {"flipped", "other"}
    with pytest.raises(NotFound):
        reader.get_document(key("flipped"), principals=["bo"])
    check_stored(database_url)
    engine.set_acl(key("flipped"), before)
    assert sees(reader, ["bo"]) == {"flipped", "other"}
    check_stored(database_url)


@pytest.mark.parametrize("after", [[], ["ada"], ACL(allow=PUBLIC, deny=["bo"])])
def test_p25_a_tightened_policy_holds_at_once(after: AclLike, new_engine: NewEngine, database_url: str) -> None:
    engine, reader = new_engine(database_url), new_engine(database_url)
    engine.set_policy("team", PUBLIC)
    engine.ingest([doc(name, "an otter", acl=Policy("team")) for name in "abc"])
    assert sees(reader, ["bo"]) == {"a", "b", "c"}
    engine.set_policy("team", after)
    assert sees(reader, ["bo"]) == set()
    engine.set_policy("team", ["bo"])
    assert sees(reader, ["bo"]) == {"a", "b", "c"}
    assert sees(reader, []) == set()
    check_stored(database_url)


@pytest.mark.parametrize("text", ["an otter swims", "an otter dives"])
def test_p25_an_acl_with_a_re_ingest(text: str, new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url)
    engine.ingest([doc("flipped", "an otter swims")])
    report = engine.ingest([doc("flipped", text, acl=["ada"])])
    assert report.outcomes[0].outcome == ("acl_updated" if "swims" in text else "updated")
    assert sees(engine, ["bo"]) == set()
    # Without an ACL the stored one stays.
    engine.ingest([Document(text="an otter sleeps", external_id="flipped")])
    assert sees(engine, ["bo"]) == set()
    assert sees(engine, ["ada"]) == {"flipped"}
    check_stored(database_url)


ACLS: dict[str, AclLike] = {
    "public": PUBLIC,
    "ada's": ["ada"],
    "nobody's": [],
    "none of bo's": ACL(allow=PUBLIC, deny=["bo"]),
    "staff's": ACL(allow=PUBLIC, require=["staff"]),
    "unallowed": ACL(require=["staff"]),
    "odd": ["*", "PUBLIC", "everyone", "anonymous", "None", "TRUSTED", "[]"],
}


@pytest.mark.parametrize(
    ("principals", "wanted"),
    [
        ([], {"public", "none of bo's"}),
        ((), {"public", "none of bo's"}),
        (set(), {"public", "none of bo's"}),
        (frozenset(), {"public", "none of bo's"}),
        (["unknown"], {"public", "none of bo's"}),
        (["Ada"], {"public", "none of bo's"}),
        ([" ada"], {"public", "none of bo's"}),
        (["null"], {"public", "none of bo's"}),
        (["bo"], {"public"}),
        (["ada"], {"public", "none of bo's", "ada's"}),
        (["ada", "ada"], {"public", "none of bo's", "ada's"}),
        (["staff"], {"public", "none of bo's", "staff's"}),
        (["TRUSTED"], {"public", "none of bo's", "odd"}),
        (TRUSTED, set(ACLS)),
    ],
)
def test_p29_an_empty_or_unknown_caller(
    principals: Principals, wanted: set[str], library: Callable[..., Engine]
) -> None:
    engine = library("who", [doc(name, "an otter", acl=acl) for name, acl in ACLS.items()])
    assert sees(engine, principals) == wanted


NO_CALLERS: list[Any] = [
    None,
    "",
    "ada",
    "group:1",
    b"ada",
    "TRUSTED",
    [""],
    [None],
    ["ada", None],
    ["ada", ""],
    [1],
    [True],
    [b"ada"],
    [["ada"]],
    ["a\0b"],
    ["\ud800"],
    [TRUSTED],
    [PUBLIC],
    PUBLIC,
    {"ada": 1},
    1,
    True,
    object(),
    ACL(allow=["ada"]),
]


@pytest.mark.parametrize("principals", NO_CALLERS)
def test_p29_q08_what_is_no_caller_is_refused(principals: Any, library: Callable[..., Engine]) -> None:
    engine = library("who", [doc(name, "an otter", acl=acl) for name, acl in ACLS.items()])
    calls: list[Callable[[], Any]] = [
        lambda: engine.search("otter", principals=principals),
        lambda: engine.count(principals=principals),
        lambda: list(engine.list_documents(principals=principals)),
        lambda: engine.get_document(key("public"), principals=principals),
    ]
    for call in calls:
        with pytest.raises(InputError):
            call()


def test_q08_a_caller_left_out_is_an_error(library: Callable[..., Engine]) -> None:
    engine: Any = library("who", [doc(name, "an otter", acl=acl) for name, acl in ACLS.items()])
    for call in (
        lambda: engine.search("otter"),
        lambda: engine.count(),
        lambda: engine.list_documents(),
        lambda: engine.get_document(key("public")),
    ):
        with pytest.raises(TypeError, match="principals"):
            call()


NO_ACLS: list[Any] = [
    None,
    "",
    "group:1",
    b"group:1",
    [""],
    [None],
    [1],
    ["ada", ["bo"]],
    ["a\0b"],
    ["\ud800"],
    [TRUSTED],
    TRUSTED,
    {"ada": 1},
    1,
    object(),
    ACL(allow="group:1"),
    ACL(allow=["ada"], deny="bo"),
    ACL(allow=["ada"], require="staff"),
    ACL(allow=["ada"], deny=[PUBLIC]),  # type: ignore[list-item]
    ACL(allow=None),  # type: ignore[arg-type]
    Policy(""),
    Policy(None),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("acl", NO_ACLS)
def test_p29_q08_what_is_no_acl_is_refused(acl: Any, engine: Engine) -> None:
    report = engine.ingest([doc("good", "an otter", acl=["ada"]), doc("bad", "an otter", acl=acl)])
    assert [item.outcome for item in report.outcomes] == ["created", "failed"]
    assert "acl" in str(report.failed[0].error).lower() or "policy" in str(report.failed[0].error)
    with pytest.raises(InputError):
        engine.set_acl(key("good"), acl)
    with pytest.raises(InputError):
        engine.set_policy("p", acl)
    assert not engine.policies()
    assert engine.get_acl(key("good")) == ACL(allow=("ada",))
    assert sees(engine, ["g", "r", "o", "u", "p", ":", "1", "group:1"]) == set()
    assert sees(engine, TRUSTED) == {"good"}


def test_p29_a_document_without_an_acl_is_refused(engine: Engine) -> None:
    report = engine.ingest([Document(text="an otter", external_id="bare"), doc("good", "an otter", acl=["ada"])])
    assert [item.outcome for item in report.outcomes] == ["failed", "created"]
    assert "acl" in str(report.failed[0].error)
    assert sees(engine, TRUSTED) == {"good"}


@pytest.mark.parametrize("acl", [Policy("missing"), Policy("Team"), Policy("team ")])
def test_p29_an_unknown_policy_is_refused(acl: Policy, engine: Engine) -> None:
    engine.set_policy("team", ["ada"])
    report = engine.ingest([doc("one", "an otter", acl=acl), doc("two", "an otter", acl=["ada"])])
    assert [item.outcome for item in report.outcomes] == ["failed", "created"]
    with pytest.raises(InputError, match="policy"):
        engine.set_acl(key("two"), acl)
    assert sees(engine, ["ada"]) == {"two"}


HIDDEN = [
    *("alpha alpha alpha" for _ in range(40)),
    *("gamma alpha delta" for _ in range(20)),
    "betta bata beta",
    "alpho alphas alfa",
]


@pytest.mark.parametrize("query", ["alpha beta", "alpha gamma", "alpa betta", '"alpha river"'])
@pytest.mark.parametrize("rank", ["bm25", "ts_rank_cd", "ts_rank"])
@pytest.mark.parametrize("method", ["rrf", "minmax"])
def test_q06_hidden_words_change_nothing(query: str, rank: str, method: str, library: Callable[..., Engine]) -> None:
    visible = [
        doc("a", "alpha by the river", acl=["ada"]),
        doc("b", "beta by the river", acl=["ada"]),
        doc("ab", "alpha and beta stand by the very long river", acl=["ada"]),
        doc("c", "gamma by the river", acl=["ada"]),
    ]
    hidden = [doc(str(at), text, acl=["bo"]) for at, text in enumerate(HIDDEN)]
    sections = {"search": {"lexical_rank": rank}, "fusion": {"method": method}}
    everything = library(f"all {rank} {method}", [*hidden, *visible], **sections)
    alone = library(f"visible {rank} {method}", visible, **sections)
    for weights in (None, *map(only, LEGS)):
        got = everything.search(query, principals=["ada"], weights=weights)
        want = alone.search(query, principals=TRUSTED, weights=weights)
        assert ranking(got) == ranking(want)
        assert [hit.legs for hit in got.hits] == [hit.legs for hit in want.hits]
        assert got.report.legs == want.report.legs


Change = Callable[[Engine], Any]
CHANGES: dict[str, Change] = {
    "revoked": lambda engine: engine.set_acl([key("one"), key("two")], []),
    "deleted": lambda engine: engine.delete([key("one"), key("two")]),
    "written anew": lambda engine: engine.ingest(
        [doc("one", "a heron wades", ["ada"]), doc("two", "a heron flies", ["ada"])]
    ),
    "more added": lambda engine: engine.ingest([doc("three", "an otter otter", ["ada"])]),
    "policy closed": lambda engine: engine.set_policy("team", []),
}


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, Callable[[], Any]], None]]:
    """Do something on another connection just before the n-th batch of the next transaction here."""
    run = Transaction.run
    plan: list[tuple[int, Callable[[], Any]]] = []

    def watched(self: Transaction, *statements: Statement, **options: bool) -> Any:
        if plan:
            left, act = plan.pop()
            if left:
                plan.append((left - 1, act))
            else:
                act()
        return run(self, *statements, **options)

    monkeypatch.setattr(Transaction, "run", watched)
    yield lambda batch, act: plan.append((batch, act))
    plan.clear()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("batch", range(6))
def test_q07_one_search_is_one_snapshot(
    batch: int,
    change: str,
    between: Callable[[int, Callable[[], Any]], None],
    new_engine: NewEngine,
    database_url: str,
) -> None:
    """Whenever the change comes, the answer is the one before it or the one after it, whole."""
    engine, other = new_engine(database_url), new_engine(database_url)
    engine.set_policy("team", ["ada"])
    engine.ingest(
        [
            doc("one", "an otter swims", ["ada"]),
            doc("two", "an otter eats", Policy("team")),
            doc("four", "a badger digs", ["ada"]),
        ]
    )
    other.count(principals=TRUSTED)

    def answer() -> Any:
        result = engine.search("otter ottter", principals=["ada"])
        return [(hit.chunk_id, hit.score, hit.text) for hit in result.hits], result.report.legs

    before = answer()
    happened: list[Any] = []

    def act() -> None:
        happened.append(CHANGES[change](other))

    between(batch, act)
    amidst = answer()
    if not happened:
        assert batch >= 3, "scope, statistics, legs and texts are read in batches of their own"
        return
    after = answer()
    assert after != before
    assert amidst == (after if batch == 0 else before)
    check_stored(database_url)


@pytest.mark.parametrize("batch", [1])
@pytest.mark.parametrize("change", CHANGES)
def test_q07_a_document_is_read_from_one_snapshot(
    batch: int,
    change: str,
    between: Callable[[int, Callable[[], Any]], None],
    new_engine: NewEngine,
    database_url: str,
) -> None:
    engine, other = new_engine(database_url), new_engine(database_url)
    engine.set_policy("team", ["ada"])
    engine.ingest([doc("one", "an otter swims", ["ada"]), doc("two", "otters", Policy("team"))])
    between(batch, lambda: CHANGES[change](other))
    assert engine.get_document(key("one"), principals=["ada"]).text == "an otter swims"
    between(batch, lambda: CHANGES[change](other))
    counted = engine.count(principals=TRUSTED, documents=[key("one"), key("two")])
    assert counted.documents == (0 if change == "deleted" else 2)


class Renamed(Named):
    """Changes access while the query is embedded: before the search's snapshot."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__("hashing-32", 32)
        self._act = act

    def embed_query(self, text: str) -> Any:
        self._act()
        return super().embed_query(text)


def test_q07_a_change_while_the_query_is_embedded_counts(new_engine: NewEngine, database_url: str) -> None:
    other = new_engine(database_url)
    other.ingest([doc("one", "an otter swims", ["ada"])])
    engine = new_engine(database_url, Renamed(lambda: other.set_acl(key("one"), [])))
    assert not engine.search("otter", principals=["ada"]).hits
