"""What goes over the wire, as libpq traces it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable

import pytest

from context_engine import Document, Engine, StoreError
from context_engine.retrieval.compose import Statement

NewEngine = Callable[..., Engine]
CALLS: dict[str, Callable[[Engine], object]] = {
    "search": lambda engine: engine.search("otter", principals=["ada"]),
    "search without hits": lambda engine: engine.search("otter", principals=["bo"]),
    "ingest": lambda engine: engine.ingest([Document(text="a heron", name="d", acl=["ada"])]),
    "count": lambda engine: engine.count(principals=["ada"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_p50_nothing_is_sent_after_what_ends_a_transaction(name: str, new_engine: NewEngine, database_url: str) -> None:
    """A pooler gives its server connection to the next client there: a Flush would take one, and never give it back."""
    engine = new_engine(database_url, storage={"pool_size": 1})
    engine.ingest([Document(text="an otter", name="d", acl=["ada"])])
    with tempfile.TemporaryFile() as file:
        with engine._open().store.connection() as connection:
            connection.pgconn.trace(file.fileno())
        CALLS[name](engine)
        with engine._open().store.connection() as connection:
            connection.pgconn.untrace()
        file.seek(0)
        lines = [line.decode().rstrip("\n").split("\t") for line in file]
    messages = [(fields[1], fields[3], fields[-1].strip()) for fields in lines if len(fields) > 3]
    ends = [at for at, message in enumerate(messages) if message == ("B", "ReadyForQuery", "I")]
    assert ends
    for end in ends:
        last_sent = [kind for side, kind, _ in messages[:end] if side == "F"][-1]
        assert last_sent in {"Sync", "Query"}


def test_a_connection_left_amidst_a_pipeline_is_given_up(new_engine: NewEngine, database_url: str) -> None:
    """What cut it off is told, not that nothing more can be sent; and the next call has another connection."""
    engine = new_engine(database_url, storage={"pool_size": 1})
    engine.ingest([Document(text="an otter", name="d", acl=["ada"])])
    with pytest.raises(StoreError, match="cut off"), engine._open().store.read() as transaction:
        transaction.run(Statement("SELECT 1"))
        transaction._connection.pgconn.enter_pipeline_mode()
        raise StoreError("cut off")
    assert engine.search("otter", principals=["ada"]).hits
