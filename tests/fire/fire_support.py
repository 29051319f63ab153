"""A server of a test's own, durable as in production, to be killed, cut off and filled up."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from context_engine import Engine, Settings
from context_engine.db.embedded import EmbeddedServer
from context_engine.models.hashing import HashingEmbedder

SMALL = {"shared_buffers": "32MB", "max_wal_size": "64MB", "min_wal_size": "32MB"}
SETTINGS = {"ingest": {"chunk_tokens": 16}, "storage": {"pool_size": 3}}


def open_engine(url: str) -> Engine:
    return Engine(url, embedder=HashingEmbedder(32), settings=Settings(**SETTINGS))


def name_of(url: str) -> str:
    """The database that a URL names."""
    return str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


class OwnServer:
    """An embedded server that can be killed and started again; fsync and full pages as by default."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.handles = [EmbeddedServer.start(folder, options=SMALL)]
        self._databases = 0

    def new_database(self, template: str = "template1") -> str:
        """Make a database; returns its URL."""
        self._databases += 1
        name = f"fire_{self._databases}"
        with psycopg.connect(self.handles[-1].url(), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.handles[-1].url(name)

    @property
    def processes(self) -> list[psutil.Process]:
        """The postmaster and its children."""
        pid_file = self.folder / "postgres-18" / "postmaster.pid"
        postmaster = psutil.Process(int(pid_file.read_text().split()[0]))
        return [postmaster, *postmaster.children(recursive=True)]

    def kill(self) -> None:
        """Kill every process of the server at once, as a machine that dies would."""
        family = self.processes
        for process in family:
            with suppress(psutil.NoSuchProcess):
                os.kill(process.pid, signal.SIGKILL)
        psutil.wait_procs(family, timeout=60)

    def restart(self) -> None:
        self.handles.append(EmbeddedServer.start(self.folder, options=SMALL))

    def close(self) -> None:
        for handle in self.handles:
            handle.close()
