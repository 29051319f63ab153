"""P50: behind PgBouncer in transaction mode, where each transaction may be on another connection of the server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from case_support import Background, check_stored, doc, found, key
from fire_support import OwnServer, name_of
from psycopg import sql

from context_engine import PUBLIC, TRUSTED, ConfigError, Count, Engine, Settings
from context_engine.models.hashing import HashingEmbedder

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="pgbouncer is not installed (Debian: apt-get install pgbouncer)"
)
APP = "bouncer_app"
CONFIG = """
[databases]
* = host={server} port=5432

[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = 6432
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {size}
server_round_robin = 1
ignore_startup_parameters = extra_float_digits
log_connections = 0
log_disconnections = 0
stats_period = 3600
"""


def start(own_server: OwnServer, folder: Path, size: int) -> subprocess.Popen[bytes]:
    stat = (own_server.folder / "postgres-18").stat()
    given = psycopg.conninfo.conninfo_to_dict(own_server.handles[-1].url())
    (folder / "users").write_text(f'"postgres" ""\n"{APP}" ""\n')
    (folder / "ini").write_text(CONFIG.format(server=given["host"], folder=folder, size=size))
    account: dict[str, Any] = {}
    if os.geteuid() == 0:  # it refuses to run as root; the server's socket is its user's alone
        account = {"user": stat.st_uid, "group": stat.st_gid, "extra_groups": []}
        for path in (folder, folder / "users", folder / "ini"):
            os.chown(path, stat.st_uid, stat.st_gid)
    assert PROGRAM
    return subprocess.Popen([PROGRAM, str(folder / "ini")], stderr=subprocess.PIPE, **account)


@pytest.fixture(scope="module", params=[1, 3])
def bouncer(own_server: OwnServer, own_folder: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Run it with so many connections to the server; makes a URL through it from a direct one."""
    folder = own_folder / f"bouncer{request.param}"
    folder.mkdir()
    running = start(own_server, folder, request.param)

    def through(url: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@/{name_of(url)}?host={folder}&port=6432"

    try:
        assert running.stderr
        lines: list[bytes] = []
        for line in running.stderr:
            lines.append(line)
            if b"listening on unix" in line:
                break
        else:
            raise AssertionError(b"".join(lines).decode())
        yield through
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=30)


def open_engine(url: str, **storage: Any) -> Engine:
    settings = Settings(storage={"pool_size": 4, **storage}, ingest={"chunk_tokens": 16})
    return Engine(url, embedder=HashingEmbedder(32), settings=settings)


def test_p50_the_whole_flow(bouncer: Callable[..., str], own_server: OwnServer) -> None:
    direct = own_server.new_database()
    with open_engine(bouncer(direct), ann_exact_threshold=100) as engine:
        engine.set_policy("team", ["cy"])
        documents = [doc(f"d{at}", f"an otter swims in river {at}", [f"u{at % 5}"]) for at in range(300)]
        assert engine.ingest(documents).created == 300
        for _ in range(20):
            result = engine.search("otter river 7", principals=["u2"])
            assert result.hits and not result.report.degraded
        engine.set_acl(key("d2"), PUBLIC)
        assert found(engine.search("otter", principals=[])) == ["d2"]
        engine.set_policy("team", ["bo"])
        assert engine.delete(key("d2")) == 1
        assert engine.count(principals=["u2"]) == Count(59, 59)
        assert len(list(engine.list_documents(principals=TRUSTED))) == 299
        check_stored(direct, 16)


def test_p50_many_callers_at_once_share_its_connections(bouncer: Callable[..., str], own_server: OwnServer) -> None:
    """Nothing that one caller's transaction sets is there for the next, on whatever connection it comes."""
    direct = own_server.new_database()
    with open_engine(bouncer(direct)) as engine:
        engine.ingest([doc(f"d{at}", f"an otter {at}", [f"u{at % 8}"]) for at in range(80)])

        def search(number: int) -> Callable[[], list[str]]:
            return lambda: [
                name
                for _ in range(5)
                for name in found(engine.search("otter", principals=[f"u{number % 8}"], top_k=50))
            ]

        for number, call in enumerate([Background(search(number)) for number in range(16)]):
            expected = sorted([f"d{at}" for at in range(number % 8, 80, 8)] * 5)
            assert sorted(call.result()) == expected
        with psycopg.connect(bouncer(direct), autocommit=True, prepare_threshold=None) as plain:
            for setting in ("context_engine.principals", "statement_timeout", "search_path"):
                row = plain.execute("SELECT current_setting(%s, true)", (setting,)).fetchone()
                assert row and row[0] in (None, "", "0", '"$user", public')


def test_p50_a_hardened_database_behind_it(bouncer: Callable[..., str], own_server: OwnServer) -> None:
    direct = own_server.new_database()
    with open_engine(direct) as owner:
        owner.ingest([doc(f"d{at}", f"an otter {at}", [f"u{at % 4}"]) for at in range(20)])
        owner.harden("bouncer_reader")
    with psycopg.connect(direct, autocommit=True) as admin:
        if admin.execute("SELECT FROM pg_roles WHERE rolname = %s", (APP,)).fetchone() is None:
            admin.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE bouncer_reader").format(sql.Identifier(APP)))
    with open_engine(bouncer(direct, APP), pool_size=2) as engine:
        for turn in range(12):
            expected = sorted(f"d{at}" for at in range(turn % 4, 20, 4))
            assert sorted(found(engine.search("otter", principals=[f"u{turn % 4}"]))) == expected
            assert not found(engine.search("otter", principals=[]))
            with pytest.raises(ConfigError):
                engine.search("otter", principals=TRUSTED)
