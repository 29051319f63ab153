"""Cases about many at once: one whole version, one ACL, nobody told a falsehood, no error out."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import psycopg
import pytest
from case_embedders import Gated, Same
from case_support import (
    LEGS,
    Background,
    at_once,
    check_stored,
    doc,
    found,
    key,
    one,
    only,
    wait_for,
    waits_for_a_lock,
)
from psycopg import sql

from context_engine import ACL, PUBLIC, TRUSTED, Count, Document, Engine, IngestReport, NotFound, Policy
from context_engine.db._sync.store import Transaction
from context_engine.model import AclLike
from context_engine.retrieval.compose import Statement
from context_engine.sql import load

NewEngine = Callable[..., Engine]
WIDE = {"storage": {"pool_size": 8}, "ingest": {"chunk_tokens": 16}}


def version(name: str, writer: str, parts: int) -> str:
    return "\n\n".join(f"Part {part} of {name} as {writer} wrote it last." for part in range(parts))


def check_counts(engine: Engine, database_url: str, chunk_tokens: int = 16) -> None:
    recount = check_stored(database_url, chunk_tokens)
    counted = engine.count(principals=TRUSTED)
    assert counted == Count(recount.documents, recount.chunks)
    assert recount.embeddings == recount.chunks
    assert len(list(engine.list_documents(principals=TRUSTED))) == recount.documents


NAMES = [f"document {number}" for number in range(50)]


def worker(engine: Engine, number: int, rounds: int) -> list[IngestReport]:
    """Write all documents in an order of its own, and delete and move some on the way."""
    rng = random.Random(number)  # noqa: S311
    reports: list[IngestReport] = []
    for turn in range(rounds):
        order = NAMES[::-1] if (number + turn) % 2 else list(NAMES)
        if number > 3:
            rng.shuffle(order)
        writer = f"writer{number} in turn {turn}"
        acl: AclLike = [f"user:{number}"] if turn % 2 else Policy(f"p{number % 3}")
        documents = [doc(name, version(name, writer, 1 + rng.randrange(5)), acl) for name in order]
        size = rng.choice([1, 7, 50])
        for start in range(0, len(documents), size):
            reports.append(engine.ingest(documents[start : start + size]))
        picked = [key(name) for name in rng.sample(order, 10)]
        if number % 2:
            engine.delete(picked)
        else:
            try:
                engine.set_acl(picked, [f"user:{number}", f"turn:{turn}"])
            except NotFound:
                pass  # another has deleted one of them
    return reports


@pytest.mark.parametrize("engines", [1, 2])
def test_p47_eight_writers_in_opposite_orders(engines: int, new_engine: NewEngine, database_url: str) -> None:
    made = [new_engine(database_url, **WIDE) for _ in range(engines)]
    for name in ("p0", "p1", "p2"):
        made[0].set_policy(name, ["ada"])

    def work(number: int) -> Callable[[], list[IngestReport]]:
        return lambda: worker(made[number % engines], number, rounds=2)

    reports = itertools.chain(*at_once(*map(work, range(8))))
    failed = [item.error for report in reports for item in report.failed]
    assert not failed
    check_counts(made[0], database_url)
    # And it can go on as if nothing had been.
    last = [doc(name, version(name, "the last", 2), PUBLIC) for name in NAMES]
    assert not made[0].ingest(last).failed
    check_counts(made[0], database_url)
    assert made[0].count(principals=[]) == Count(50, 100)


def test_p47_the_same_new_document_from_four_writers_at_one_moment(new_engine: NewEngine, database_url: str) -> None:
    """One of them makes it and the others find it made, whichever of its unique keys they meet first."""
    new_engine(database_url).set_policy("team", ["ada"])
    acl_id = one(database_url, "SELECT id FROM context_engine.acl WHERE policy = 'team'")
    claim = sql.SQL(load("write/claim_documents")).format(schema=sql.Identifier("context_engine")).as_string(None)
    rounds = 500
    barrier = threading.Barrier(4)

    def write() -> int:
        made = 0
        with psycopg.connect(database_url, autocommit=True) as connection:
            for number in range(rounds):
                barrier.wait(30)
                columns = {"ids": [number], "acl_ids": [acl_id], "sources": [""], "external_ids": [str(number)]}
                rest = {"names": [""], "metadata": ["{}"], "content_hashes": [b""]}
                made += len(connection.execute(claim, columns | rest).fetchall())
        return made

    assert sum(at_once(write, write, write, write)) == rounds


def test_p47_writers_and_the_index_being_built(new_engine: NewEngine, database_url: str) -> None:
    """Statistics, the vector index and folding go on beside the writers, and fail nobody."""
    engines = [new_engine(database_url, Same(), storage={"ann_exact_threshold": 100}) for _ in range(4)]

    def work(number: int) -> Callable[[], list[IngestReport]]:
        def ingest() -> list[IngestReport]:
            return [
                engines[number].ingest(
                    doc(f"{number} {turn} {at}", f"note {at} of writer{number}") for at in range(250)
                )
                for turn in range(2)
            ]

        return ingest

    reports = list(itertools.chain(*at_once(*map(work, range(4)))))
    assert [report.created for report in reports] == [250] * 8
    check_counts(engines[0], database_url, 256)
    assert one(database_url, "SELECT count(*) FROM context_engine.setting WHERE name = 'vector_index'") == 1


def test_p47_many_small_batches_fold_the_tally(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, Same(), **WIDE)
    with psycopg.connect(database_url, autocommit=True) as connection:
        engine.ingest([doc("first", "a note", ["ada"])])
        connection.execute(
            "INSERT INTO context_engine.tally SELECT t.* FROM context_engine.tally AS t, generate_series(1, 1500)"
        )
        connection.execute(
            "INSERT INTO context_engine.tally SELECT acl_id, source, -documents, -chunks"
            " FROM context_engine.tally LIMIT 1500"
        )

    def work(number: int) -> Callable[[], Any]:
        def ingest() -> None:
            for at in range(10):
                assert engine.ingest([doc(f"{number} {at}", "a note", ["ada"])]).created == 1

        return ingest

    at_once(*map(work, range(8)))
    check_counts(engine, database_url)
    assert engine.count(principals=["ada"]) == Count(81, 81)
    assert one(database_url, "SELECT count(*) FROM context_engine.tally") < 1_000


def test_p47_a_delete_amidst_a_creation_and_an_update(
    new_engine: NewEngine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document comes up after the delete took its locks, and is being rewritten when it strikes."""
    deleting, creating, updating = (new_engine(database_url, **WIDE) for _ in range(3))
    for engine in (deleting, creating, updating):
        engine.ingest([doc("other", "a heron wades", ["ada"])])
    written, go_on, over = threading.Event(), threading.Event(), threading.Event()
    updates: list[Background] = []
    run, affected = Transaction.run, Transaction.affected

    def update() -> IngestReport:
        return updating.ingest([doc("one", version("one", "the second", 4), ["bo", "cy"])])

    def amidst(statement: Statement, call: Callable[[], Any]) -> Any:
        if updates or statement.text != load("write/delete_documents"):
            return call()
        creating.ingest([doc("one", version("one", "the first", 2), ["ada"])])
        updates.append(Background(update))
        wait_for(written)
        watcher = Background(lambda: (waits_for_a_lock(database_url, over), go_on.set()))
        try:
            return call()
        finally:
            over.set()
            watcher.result()

    def slow_run(self: Transaction, *statements: Statement) -> Any:
        answer = amidst(statements[-1], lambda: run(self, *statements))
        if updates and statements[0].text == load("write/add_tally") and not written.is_set():
            written.set()
            wait_for(go_on)
        return answer

    def slow_affected(self: Transaction, statement: Statement) -> Any:
        return amidst(statement, lambda: affected(self, statement))

    monkeypatch.setattr(Transaction, "run", slow_run)
    monkeypatch.setattr(Transaction, "affected", slow_affected)
    deleted = deleting.delete(key("one"))
    updates[0].result()
    assert deleted in (0, 1)
    check_counts(deleting, database_url)


@pytest.mark.parametrize("acl", [["ada"], PUBLIC, None, Policy("team")])
@pytest.mark.parametrize("tight", [[], ["cy"], Policy("closed")])
@pytest.mark.parametrize("content", ["gated and new", "the same"])
def test_q01_set_acl_beats_an_ingest_under_way(
    acl: AclLike | None, tight: AclLike, content: str, new_engine: NewEngine, database_url: str
) -> None:
    gated = Gated()
    engine, other = new_engine(database_url, gated), new_engine(database_url)
    other.set_policy("team", ["ada", "bo"])
    other.set_policy("closed", [])
    other.ingest([doc("one", "the same", ["ada", "bo"]), doc("two", "a heron", ["ada"])])
    fields: dict[str, Any] = {} if acl is None else {"acl": acl}
    given = [Document(text=content, external_id="one", **fields), doc("two", "gated heron", ["ada"])]
    ingest = Background(lambda: engine.ingest(given))
    wait_for(gated.reached)
    other.set_acl(key("one"), tight)
    gated.opened.set()
    report = ingest.result()

    assert not report.failed
    expected = tight if isinstance(tight, Policy) else ACL(allow=tuple(cast(list[str], tight)))
    assert other.get_acl(key("one")) == expected
    assert bool(report.outcomes[0].warnings) == (acl is not None)
    assert not other.search("same gated", principals=["bo"]).hits
    assert other.get_document(key("one"), principals=TRUSTED).text == content
    check_counts(other, database_url, 256)


@pytest.mark.parametrize("before", ["deleted", "never there"])
def test_q01_set_acl_beats_an_ingest_that_saw_no_document(
    before: str, new_engine: NewEngine, database_url: str
) -> None:
    """The document is created, and closed, after the ingest looked and before it writes."""
    gated = Gated()
    engine, other = new_engine(database_url, gated), new_engine(database_url)
    if before == "deleted":
        other.ingest([doc("one", "an otter", ["ada"])])
        other.delete(key("one"))
    ingest = Background(lambda: engine.ingest([doc("one", "gated otter", PUBLIC)]))
    wait_for(gated.reached)
    other.ingest([doc("one", "an otter", ["ada", "bo"])])
    other.set_acl(key("one"), ["ada"])
    gated.opened.set()
    report = ingest.result()
    assert not report.failed
    assert other.get_acl(key("one")) == ACL(allow=("ada",))
    assert report.outcomes[0].warnings
    check_counts(other, database_url, 256)


def test_q01_a_revision_is_never_used_twice(new_engine: NewEngine, database_url: str) -> None:
    """The document that set_acl closed is deleted, created anew and closed again meanwhile."""
    gated = Gated()
    engine, other = new_engine(database_url, gated), new_engine(database_url)
    other.ingest([doc("one", "an otter", PUBLIC)])
    other.set_acl(key("one"), PUBLIC)
    ingest = Background(lambda: engine.ingest([doc("one", "gated otter", PUBLIC)]))
    wait_for(gated.reached)
    other.delete(key("one"))
    other.ingest([doc("one", "an otter", PUBLIC)])
    other.set_acl(key("one"), ["ada"])
    gated.opened.set()
    assert not ingest.result().failed
    assert other.get_acl(key("one")) == ACL(allow=("ada",))
    check_counts(other, database_url, 256)


def test_q01_set_acl_beats_an_ingest_that_has_to_begin_again(new_engine: NewEngine, database_url: str) -> None:
    """The database refuses another document of the batch, which is then written in parts."""
    gated = Gated()
    engine, other = new_engine(database_url, gated), new_engine(database_url)
    other.ingest([doc("one", "an otter", PUBLIC)])
    with psycopg.connect(database_url) as connection:
        connection.execute("ALTER TABLE context_engine.chunk ADD CHECK (text NOT LIKE '%refused%')")
    batch = [doc("one", "gated otter", PUBLIC), doc("two", "refused", PUBLIC)]
    ingest = Background(lambda: engine.ingest(batch))
    wait_for(gated.reached)
    other.set_acl(key("one"), ["ada"])
    gated.opened.set()
    assert [item.outcome for item in ingest.result().outcomes] == ["updated", "failed"]
    assert other.get_acl(key("one")) == ACL(allow=("ada",))
    check_counts(other, database_url, 256)


def test_q01_set_acl_against_re_ingest_in_a_loop(new_engine: NewEngine, database_url: str) -> None:
    engine, other = (new_engine(database_url, **WIDE) for _ in range(2))
    engine.ingest([doc("one", version("one", "nobody", 3), ["ada", "bo"])])
    tightened, stop = threading.Event(), threading.Event()
    leaks: list[Any] = []

    def tighten() -> None:
        for turn in range(20):
            other.set_acl(key("one"), ["ada", f"turn:{turn}"])
        other.set_acl(key("one"), ["ada"])
        tightened.set()

    def rewrite() -> None:
        for turn in range(40):
            text = version("one", f"turn {turn}", 1 + turn % 4)
            assert not engine.ingest([Document(text=text, external_id="one")]).failed
        stop.set()

    def watch() -> None:
        while not stop.is_set():
            sure = tightened.is_set()
            hits = other.search("part wrote", principals=["bo"]).hits
            if sure and hits:
                leaks.append(hits)

    at_once(tighten, rewrite, watch, lambda: _check_until(stop, database_url))
    assert not leaks
    assert other.get_acl(key("one")) == ACL(allow=("ada",))
    check_counts(other, database_url)


def _check_until(stop: threading.Event, database_url: str) -> None:
    while not stop.is_set():
        check_stored(database_url, 16)


def test_q02_two_versions_with_two_acls(new_engine: NewEngine, database_url: str) -> None:
    writers = 12
    engine = new_engine(database_url, **WIDE)
    for turn in range(4):
        name = f"one {turn % 2}"

        def write(number: int, name: str = name, turn: int = turn) -> Callable[[], IngestReport]:
            text = version(name, f"writer{number} turn{turn}", 1 + number % 4)
            return lambda: engine.ingest([doc(name, text, [f"user:{number}"])])

        reports = at_once(*map(write, range(writers)))
        outcomes = [report.outcomes[0].outcome for report in reports]
        wanted = ["created"] * (turn < 2) + ["updated"] * (writers - (turn < 2))
        assert sorted(outcomes) == wanted
        stored = engine.get_document(key(name), principals=TRUSTED)
        [winner] = [n for n in range(writers) if f"writer{n} turn{turn} " in stored.text]
        assert stored.text == version(name, f"writer{winner} turn{turn}", 1 + winner % 4)
        assert engine.get_acl(key(name)) == ACL(allow=(f"user:{winner}",))
        for number in range(writers):
            result = engine.search(name, principals=[f"user:{number}"], documents=[key(name)])
            assert bool(result.hits) == (number == winner)
        check_counts(engine, database_url)


@pytest.mark.parametrize("acls", ["the same", "different"])
def test_q02_the_same_content_at_once(acls: str, new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, **WIDE)

    def write(number: int) -> Callable[[], IngestReport]:
        acl = ["ada"] if acls == "the same" else [f"user:{number}"]
        return lambda: engine.ingest([doc("one", version("one", "all", 3), acl)])

    reports = at_once(*map(write, range(12)))
    outcomes = [report.outcomes[0].outcome for report in reports]
    other = "unchanged" if acls == "the same" else "acl_updated"
    assert sorted(outcomes) == sorted(["created"] + [other] * 11)
    check_counts(engine, database_url)


class Traffic:
    """Counts what one engine does to its database."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statements: list[str] = []
        self.round_trips = 0
        self._lock = threading.Lock()
        execute, run = psycopg.Connection.execute, Transaction.run

        def counted(connection: Any, query: Any, *values: Any, **named: Any) -> Any:
            text = query if isinstance(query, str) else query.decode() if isinstance(query, bytes) else ""
            with self._lock:
                self.statements.append(text)
                piped = connection.pgconn.pipeline_status
                self.round_trips += not piped
            return execute(connection, query, *values, **named)

        def batch(transaction: Transaction, *statements: Statement) -> Any:
            with self._lock:
                self.round_trips += 1
            return run(transaction, *statements)

        monkeypatch.setattr(psycopg.Connection, "execute", counted)
        monkeypatch.setattr(Transaction, "run", batch)

    def clear(self) -> None:
        self.statements.clear()
        self.round_trips = 0

    def starting(self, word: str) -> list[str]:
        return [text for text in self.statements if text.lstrip().startswith(word)]


BACKENDS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND backend_type = 'client backend'"
)


@pytest.mark.parametrize(("query", "most"), [("otter river", 6), ("ottter rivr", 9), ("otter", 6), ("zzzz", 9)])
@pytest.mark.parametrize("documents", [20, 300])
def test_q14_one_connection_one_snapshot(
    query: str,
    most: int,
    documents: int,
    new_engine: NewEngine,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = new_engine(database_url)
    engine.ingest(doc(str(number), f"an otter in river {number}", ["ada"]) for number in range(documents))
    engine.close()
    engine = new_engine(database_url)
    traffic = Traffic(monkeypatch)
    engine.search(query, principals=["ada"])
    for _ in range(5):
        traffic.clear()
        assert engine.search(query, principals=["ada"]).hits
        assert len(traffic.starting("BEGIN")) == 1
        assert "REPEATABLE READ READ ONLY" in traffic.starting("BEGIN")[0]
        assert len(traffic.starting("COMMIT")) == 1
        assert traffic.round_trips <= most
        assert len(traffic.statements) <= 20
    assert one(database_url, BACKENDS) == 2  # the other lies idle: it is for callers who see many chunks


@pytest.mark.parametrize("pool_size", [1, 3])
def test_q14_never_more_connections_than_the_pool(pool_size: int, new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, storage={"pool_size": pool_size})
    engine.ingest(doc(str(number), f"an otter {number}", [f"user:{number % 8}"]) for number in range(80))

    def search(number: int) -> Callable[[], Sequence[set[str]]]:
        return lambda: [
            set(found(engine.search("otter", principals=[f"user:{number}"], weights=weights)))
            for weights in (None, *map(only, LEGS))
        ]

    answers = at_once(*map(search, range(8)))
    for number, answer in enumerate(answers):
        assert answer == [{str(at) for at in range(number, 80, 8)}] * 4
    assert one(database_url, BACKENDS) <= pool_size
