"""The disk is full: what cannot be stored is refused whole, what is stored stays, and with room again it goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from case_support import check_stored, doc, key
from fire_support import OwnServer, open_engine

from context_engine import PUBLIC, TRUSTED, ContextEngineError, Engine, StoreError

MIB = 1024 * 1024


def can_mount() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0 and shutil.which("mount") is not None


@pytest.fixture
def small_disk(request: pytest.FixtureRequest) -> Iterator[Path]:
    if not can_mount():
        pytest.skip("a small disk is a tmpfs, and mounting one needs root on Linux")
    folder = Path(tempfile.mkdtemp(prefix="ce-full-"))
    size = f"size={request.param}m,mode=755"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        folder.rmdir()
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)
    folder.rmdir()


class Ballast:
    """A file that takes up room."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ballast"

    def leave(self, free: int) -> None:
        """Grow until only so many bytes are free."""
        state = os.statvfs(self._path.parent)
        wanted = state.f_bavail * state.f_frsize - free
        with self._path.open("ab") as file:
            for _ in range(max(wanted, 0) // MIB):
                file.write(bytes(MIB))

    def drop(self) -> None:
        self._path.unlink(missing_ok=True)


def fill_up(engine: Engine, ballast: Ballast) -> tuple[list[str], ContextEngineError]:
    """Ingest until the disk is full; returns what was acknowledged, and the error."""
    acknowledged: list[str] = []
    ballast.leave(6 * MIB)
    for batch in range(200):
        names = [f"b{batch} {at}" for at in range(50)]
        documents = [
            doc(name, "\n\n".join(f"{name} otter {os.urandom(400).hex()}" for _ in range(4))) for name in names
        ]
        try:
            report = engine.ingest(documents)
        except ContextEngineError as error:
            return acknowledged, error
        failed = {item.external_id for item in report.failed}
        acknowledged += [name for name in names if name not in failed]
        if failed:
            return acknowledged, StoreError(str(report.failed[0].error), retryable=True)
    raise AssertionError("the disk did not fill up")


def check(engine: Engine, url: str, acknowledged: list[str]) -> None:
    check_stored(url, 16)
    names = {item.external_id for item in engine.list_documents(principals=TRUSTED)}
    assert names >= {"before", *acknowledged}
    assert engine.search("heron", principals=["ada"]).hits[0].document.external_id == "before"
    for name in acknowledged[-3:]:
        assert engine.search(f"{name} otter", principals=[], documents=[key(name)]).hits


def recovered(server: OwnServer) -> None:
    """Wait for the end of the crash: the client hears of a PANIC before the postmaster does."""
    for _ in range(600):
        log = (server.folder / "postgres.log").read_text(errors="replace")
        if "ready to accept connections" in log.rpartition("PANIC")[2]:
            return
        server.restart()
        time.sleep(0.1)
    raise AssertionError(log[-2_000:])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("small_disk", [64], indirect=True)
def test_no_room_for_rows(small_disk: Path, own_server: OwnServer) -> None:
    """The tables' disk is full, the log's is not: the ingest is refused, and all else goes on."""
    url = own_server.new_database()
    space = small_disk / "space"
    space.mkdir()
    stat = (own_server.folder / "postgres-18").stat()
    os.chown(space, stat.st_uid, stat.st_gid)
    with psycopg.connect(own_server.handles[-1].url(), autocommit=True) as admin:
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        admin.execute(f"CREATE TABLESPACE small LOCATION '{space}'")  # type: ignore[arg-type]
        admin.execute(f"ALTER DATABASE {name} SET TABLESPACE small")  # type: ignore[arg-type]
    ballast = Ballast(small_disk)
    try:
        with open_engine(url) as engine:
            engine.ingest([doc("before", "a heron wades", ["ada"])])
            acknowledged, error = fill_up(engine, ballast)
            assert isinstance(error, StoreError) and error.retryable and not error.connection_lost
            assert "resource" in str(error)
            check(engine, url, acknowledged)
            with pytest.raises(StoreError):
                for at in range(50):
                    engine.ingest([doc(f"more {at}", os.urandom(20_000).hex(), PUBLIC)])
            ballast.drop()
            assert engine.ingest([doc("after", "a heron wades again", ["ada"])]).created == 1
            check(engine, url, acknowledged)
    finally:
        ballast.drop()
        with psycopg.connect(own_server.handles[-1].url(), autocommit=True) as admin:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]
            admin.execute("DROP TABLESPACE small")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("small_disk", [220], indirect=True)
def test_no_room_for_the_log(small_disk: Path) -> None:
    """The server itself stops when it cannot write its log; with room again it starts, and nothing is lost."""
    server: Any = OwnServer(small_disk)
    ballast = Ballast(small_disk)
    try:
        url = server.new_database()
        with open_engine(url) as engine:
            engine.ingest([doc("before", "a heron wades", ["ada"])])
            acknowledged, error = fill_up(engine, ballast)
            assert isinstance(error, StoreError) and error.retryable
            ballast.drop()
            log = (small_disk / "postgres.log").read_text(errors="replace")
            assert "No space left on device" in log
            server.restart()
            recovered(server)
            try:
                engine.count(principals=[])
            except StoreError as again:
                assert again.connection_lost
            check(engine, url, acknowledged)
            assert engine.ingest([doc("after", "a heron wades again", ["ada"])]).created == 1
            check(engine, url, acknowledged)
    finally:
        ballast.drop()
        server.close()
