"""Why there is no session: what can never work is said at once, what may come back is waited for."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from context_engine import ConfigError, Engine, StoreError
from context_engine.db.errors import refused
from context_engine.models.hashing import HashingEmbedder
from context_engine.settings import Settings


def reason(url: str, wait_s: float = 30) -> str:
    settings = Settings(storage={"connect_timeout_s": wait_s})
    with pytest.raises((ConfigError, StoreError)) as caught:
        Engine(url, embedder=HashingEmbedder(16), settings=settings).count(principals=[])
    return str(caught.value)


def test_what_can_never_work_is_said_at_once(server: Any) -> None:
    started = time.monotonic()
    assert "no such database" in reason(server.url("nowhere"))
    assert "no such role" in reason(psycopg.conninfo.make_conninfo(server.url(), user="nobody"))
    assert "no PostgreSQL URL" in reason("mysql://x/y")
    assert "no PostgreSQL URL" in reason("hello")
    assert time.monotonic() - started < 25  # less than one wait


def test_what_may_come_back_is_waited_for_and_named() -> None:
    assert "nothing listens there" in reason("postgresql://u:secret@127.0.0.1:1/x", 1)
    assert "no such socket" in reason("postgresql:///x?host=/nowhere", 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('FATAL:  password authentication failed for user "u"', "password"),
        ("connection failed: fe_sendauth: no password supplied", "asks for a password"),
        ('FATAL:  no pg_hba.conf entry for host "1.2.3.4"', "pg_hba"),
        ("FATAL:  the database system is starting up", None),
        ("FATAL:  sorry, too many clients already", None),
        ("server closed the connection unexpectedly", None),
    ],
)
def test_a_server_that_starts_or_is_full_is_waited_for(text: str, said: str | None) -> None:
    found = refused(psycopg.OperationalError(text))
    assert (found is None) == (said is None)
    assert said is None or said in str(found)
