"""P50: behind pgbouncer in transaction mode, where each transaction may get another server connection."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from case_support import DEADLINE_S, at_once, doc, found
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from context_engine import TRUSTED, Engine
from context_engine.engine._sync import search

PGBOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")
pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")


@pytest.fixture
def pooled_url(database_url: str) -> Iterator[str]:
    """The database through a pooler that holds two server connections and hands them on at each transaction's end."""
    given = conninfo_to_dict(database_url)
    user = str(given.get("user", "postgres"))
    target = " ".join(f"{name}={given[name]}" for name in ("host", "port", "dbname", "user") if name in given)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lines = [
        "[databases]",
        f"pooled = {target}",
        "[pgbouncer]",
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =",
        "auth_type = any\npool_mode = transaction\ndefault_pool_size = 2",
    ]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "pgbouncer.ini")
        config.write_text("\n".join(lines) + "\n")
        Path(folder).chmod(0o755)
        assert PGBOUNCER is not None
        # It will not run as root; the server's socket is open to the user whose folder it lies in.
        as_user = ["-u", Path(str(given["host"])).owner()] if os.geteuid() == 0 else []
        with subprocess.Popen([PGBOUNCER, *as_user, str(config)], stderr=subprocess.PIPE) as process:
            try:
                _wait_until_it_listens(port, process)
                yield make_conninfo(host="127.0.0.1", port=port, dbname="pooled", user=user)
            finally:
                process.terminate()
                process.communicate(timeout=DEADLINE_S)


def _wait_until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S).close()
            return
        except ConnectionRefusedError:
            continue
    assert process.stderr is not None
    pytest.fail(process.stderr.read().decode())


@pytest.mark.parametrize("worth", [1_500, 0])
def test_p50_one_query_twenty_times(
    worth: int, pooled_url: str, new_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever sees many chunks has a second connection, but not from a pooler, which may have no more to give.
    monkeypatch.setattr(search, "_WORTH_A_CONNECTION", worth)
    engine = new_engine(pooled_url, storage={"pool_size": 4})
    engine.ingest([doc("ada's", "an otter swims", ["ada"]), doc("bo's", "the otter eats", ["bo"])])

    def ask(caller: str) -> list[Any]:
        return [found(engine.search("otter ottter", principals=[caller])) for _ in range(20)]

    answers = at_once(*(lambda caller=caller: ask(caller) for caller in ("ada", "bo", "ada", "nobody")))
    assert answers == [[["ada's"]] * 20, [["bo's"]] * 20, [["ada's"]] * 20, [[]] * 20]
    engine.set_acl(engine.search("otter", principals=["ada"]).hits[0].document.id, ["bo"])
    assert len(engine.search("otter", principals=["bo"]).hits) == 2
    assert engine.count(principals=TRUSTED).documents == 2
    assert engine._opened.searcher._beside._possible is bool(worth)


def test_p50_verify_and_explain_through_it(pooled_url: str, new_engine: Callable[..., Engine]) -> None:
    engine = new_engine(pooled_url)
    engine.ingest([doc("ada's", "an otter swims", ["ada"]), doc("bo's", "the otter eats", ["bo"])])
    assert engine.verify(callers=[["ada"], []], queries=["otter"], probe=True).ok
    for _ in range(20):
        [hit] = engine.search("otter", principals=["ada"]).hits
        assert engine.explain(hit.document.id, "otter", principals=["bo"]).access.visible is False
