"""A statement on a second connection: the same snapshot, and never needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from context_engine import TRUSTED, Document, Engine, Settings, StoreError
from context_engine.db._sync import beside as beside_module
from context_engine.db._sync.beside import Beside
from context_engine.db._sync.store import Store
from context_engine.engine._sync import search as search_module
from context_engine.retrieval.compose import Statement

DEADLINE_S = 30.0
COUNT = Statement("SELECT count(*)::int FROM {schema}.document")
PROCESS = Statement("SELECT pg_backend_pid()")
SLEEP = Statement("SELECT pg_sleep(60)")
NewEngine = Callable[..., Engine]


@pytest.fixture
def store(new_engine: NewEngine, database_url: str) -> Iterator[Store]:
    """Two connections, both open, to a database with two documents."""
    filled = new_engine(database_url)
    filled.ingest([Document(text="an otter swims", external_id=f"n{number}", acl=["ada"]) for number in range(2)])
    opened = Store(database_url, Settings(storage={"pool_size": 2, "statement_timeout_s": 20}).storage)
    opened.open()
    opened.locate_extensions()
    yield opened
    opened.close()


@pytest.fixture
def admin(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def own_process(store: Store) -> int:
    with store.read() as transaction:
        [[(process,)]] = transaction.run(PROCESS)
    return process


def test_both_see_one_snapshot(store: Store, admin: psycopg.Connection[Any]) -> None:
    beside = Beside(store)
    with store.read() as transaction:
        [[(here,)]] = transaction.run(PROCESS)
        admin.execute("DELETE FROM context_engine.document WHERE external_id = 'n0'")
        with beside.ask(transaction, COUNT) as answer, beside_another(store) as nobody:
            assert answer is not None and nobody is None, "the one other connection is taken"
            assert answer.rows() == [(2,)]
        with beside.ask(transaction, PROCESS) as answer:
            assert answer is not None
            [(there,)] = answer.rows() or []
        assert here != there
    with store.read() as transaction, beside.ask(transaction, COUNT) as answer:
        assert answer is not None and answer.rows() == [(1,)]
    assert not in_transaction(admin)


def beside_another(store: Store) -> Any:
    """Ask for a third connection; the transaction is not touched, since there is none to be had."""
    transaction: Any = None
    return Beside(store).ask(transaction, COUNT)


def in_transaction(admin: psycopg.Connection[Any]) -> list[Any]:
    return admin.execute(
        "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND state <> 'idle'"
    ).fetchall()


def test_settings_are_told_to_it_and_end_with_it(store: Store) -> None:
    told = Statement("SELECT current_setting('context_engine.principals')", local={"context_engine.principals": "a"})
    asked = Statement("SELECT current_setting('context_engine.principals', true)")
    beside = Beside(store)
    with store.read() as transaction, beside.ask(transaction, told) as answer:
        assert answer is not None and answer.rows() == [("a",)]
    with store.read() as transaction, beside.ask(transaction, asked) as answer:
        assert answer is not None and answer.rows() in ([("",)], [(None,)])


def test_a_second_connection_that_is_lost_is_not_missed(store: Store, admin: psycopg.Connection[Any]) -> None:
    beside = Beside(store)
    with store.read() as transaction, beside.ask(transaction, SLEEP) as answer:
        assert answer is not None
        kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'"
        while not admin.execute(kill).fetchall():
            pass
        assert answer.rows() is None
    with store.read() as transaction:
        assert transaction.run(COUNT) == [[(2,)]]
    assert beside._possible, "a connection may be lost on any server"


def test_a_lock_that_another_has_is_not_waited_for(store: Store, admin: psycopg.Connection[Any]) -> None:
    with admin.transaction():
        admin.execute("LOCK TABLE context_engine.document IN ACCESS EXCLUSIVE MODE")
        with store.read() as transaction, Beside(store).ask(transaction, COUNT) as answer:
            assert answer is not None and answer.rows() is None


@pytest.mark.parametrize(
    "share",
    [
        "SELECT '00000003-0000001B-7', pg_postmaster_start_time()::text, pg_backend_pid()",
        "SELECT 'no snapshot', pg_postmaster_start_time()::text, pg_backend_pid()",
        "SELECT pg_export_snapshot(), '2001-01-01 00:00:00+00', pg_backend_pid()",
    ],
    ids=["unknown snapshot", "no snapshot", "another server"],
)
def test_what_another_server_says_does_not_count_and_ends_it(
    share: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside_module, "_SHARE", share)
    beside = Beside(store)
    with store.read() as transaction, beside.ask(transaction, COUNT) as answer:
        assert answer is not None and answer.rows() is None
    with store.read() as transaction, beside.ask(transaction, COUNT) as answer:
        assert answer is None


def test_behind_a_pooler_there_is_no_second_connection(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside_module, "_SHARE", "SELECT pg_export_snapshot(), '', pg_backend_pid() + 1")
    beside = Beside(store)
    with store.read() as transaction, beside.ask(transaction, COUNT) as answer:
        assert answer is None
    assert not beside._possible


def test_what_nobody_waits_for_is_stopped(store: Store, admin: psycopg.Connection[Any]) -> None:
    with pytest.raises(KeyError), store.read() as transaction, Beside(store).ask(transaction, SLEEP) as answer:
        assert answer is not None
        raise KeyError("meanwhile")
    while in_transaction(admin):
        pass
    assert own_process(store) and own_process(store)


def test_a_statement_that_takes_too_long_says_so(store: Store) -> None:
    store.session_values = (store.session_values[0], "50")
    with (
        pytest.raises(StoreError, match="statement_timeout"),
        store.read() as transaction,
        Beside(store).ask(transaction, SLEEP) as answer,
    ):
        assert answer is not None
        answer.rows()


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Have every search use a second connection; the list says of each whether it did."""
    used: list[bool] = []
    original = search_module.Beside.ask

    def ask(self: Any, transaction: Any, statement: Any) -> Any:
        asked = original(self, transaction, statement)
        enter = type(asked).__enter__

        class Noted:
            def __enter__(self) -> Any:
                answer = enter(asked)
                used.append(answer is not None)
                return answer

            def __exit__(self, *error: Any) -> Any:
                return asked.__exit__(*error)

        return Noted()

    monkeypatch.setattr(search_module.Beside, "ask", ask)
    monkeypatch.setattr(search_module, "_WORTH_A_CONNECTION", 0)
    return used


DOCUMENTS = [Document(text=f"an otter swims {number}", external_id=f"n{number}", acl=["ada"]) for number in range(9)]


def test_a_search_answers_alike_with_one_connection_and_two(
    new_engine: NewEngine, database_url: str, always: list[bool]
) -> None:
    two = new_engine(database_url, storage={"pool_size": 4})
    two.ingest(DOCUMENTS)
    off = new_engine(database_url, search={"legs_at_once": False})
    one = new_engine(database_url, storage={"pool_size": 1})
    for principals in (["ada"], ["bo"], TRUSTED):
        found = [engine.search("otter swims 3", principals=principals) for engine in (two, off, one)]
        assert [hit.score for hit in found[0].hits] == [hit.score for hit in found[1].hits]
        assert found[0].hits == found[1].hits == found[2].hits
        assert list(found[0].report.legs.items()) == list(found[1].report.legs.items())
    # Who sees nothing has no vector leg.
    assert always == [True, False, False, False, False, False, True, False, False]


WAITING = "SELECT pid FROM pg_locks WHERE NOT granted AND relation = 'context_engine.embedding'::regclass"


def test_a_search_goes_on_where_the_second_connection_cannot(
    new_engine: NewEngine, database_url: str, admin: psycopg.Connection[Any], always: list[bool]
) -> None:
    engine = new_engine(database_url)
    engine.ingest(DOCUMENTS)
    wanted = engine.search("otter swims 3", principals=["ada"]).hits
    done = threading.Event()
    waited: set[Any] = set()

    def hold() -> None:
        with admin.transaction():
            admin.execute("LOCK TABLE context_engine.embedding IN ACCESS EXCLUSIVE MODE")
            done.set()
            while len(waited) < 2:  # the second connection, which gives up, and then the first
                waited.update(admin.execute(WAITING).fetchall())

    holder = threading.Thread(target=hold)
    holder.start()
    assert done.wait(DEADLINE_S)
    result = engine.search("otter swims 3", principals=["ada"])
    holder.join(DEADLINE_S)
    assert result.hits == wanted and not result.report.degraded
    assert always == [True, True]
