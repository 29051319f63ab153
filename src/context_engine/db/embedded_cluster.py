"""The files and processes of one embedded PostgreSQL cluster."""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping

from context_engine.db.embedded_host import (
    blocked_at,
    is_root,
    make_dirs,
    open_private,
    private_dir,
    programs,
    service_account,
    sync_dir,
)
from context_engine.errors import ConfigError, StoreError

try:
    import psutil
except ImportError:
    if TYPE_CHECKING:
        raise

_MAJOR = "18"
_TIMEOUT = 120
_PING_TIMEOUT = 5
HOST = "127.0.0.1"
_UNIX_SOCKETS = hasattr(socket, "AF_UNIX")
# The smallest of the supported systems': macOS has 104 bytes, with the final zero.
_SOCKET_PATH_LIMIT = 103
# No more than the programs need: the rest may hold secrets that are not for the server's user.
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "COMSPEC")
_SETTINGS = {
    "shared_buffers": "256MB",
    "work_mem": "32MB",
    "maintenance_work_mem": "512MB",
    "max_connections": "100",
    "max_wal_size": "2GB",
    "random_page_cost": "1.1",
    "jit": "off",
    "timezone": "UTC",
    "unix_socket_permissions": "0700",
}


class Postmaster(NamedTuple):
    """What a running server says of itself in `postmaster.pid`."""

    pid: int
    port: str
    socket_dir: str
    status: str

    def is_alive(self, cluster: Path) -> bool:
        """Whether this is a running server, and the one of that cluster."""
        with suppress(psutil.Error):
            if any(Path(word) == cluster for word in psutil.Process(self.pid).cmdline()):
                return True
        # A container that shares the directory has process ids that mean nothing here.
        return bool(self.socket_dir) and self.answers()

    def answers(self) -> bool:
        """Whether a server is where it should be, even one that still recovers from a crash."""
        return self._ping() in (Ping.OK, Ping.REJECT)

    def is_ready(self) -> bool:
        """Whether sessions can begin; `status` stays "ready" while a server recovers from a crash."""
        return self.status == "ready" and self._ping() == Ping.OK

    def _ping(self) -> int:
        where = make_conninfo(host=self.socket_dir or HOST, port=self.port, connect_timeout=_PING_TIMEOUT)
        return PGconn.ping(where.encode())


class Cluster:
    """The server's own files and processes; every method but the constructor needs the lock."""

    def __init__(self, home: Path) -> None:
        if home.exists() and not home.is_dir():
            raise ConfigError(f"the data directory {home} is a file: choose another place (CONTEXT_ENGINE_DATA_DIR)")
        self._path = home / f"postgres-{_MAJOR}"
        account = service_account(self._path) if is_root() else None
        if account and (blocked := blocked_at(home, account)):
            raise ConfigError(
                f"PostgreSQL does not run as root, and its user {account.pw_name!r} cannot enter "
                f"{blocked}: allow it with `chmod o+x`, or choose another data directory "
                "(CONTEXT_ENGINE_DATA_DIR)"
            )
        make_dirs(home)
        self._home = home
        self._account = account
        self._log = home / "postgres.log"
        self._programs = programs(account)

    def ensure_running(self, options: Mapping[str, str]) -> Postmaster:
        """Makes the cluster if it is missing and starts its server if none runs."""
        self._ensure_initialised()
        deadline = time.monotonic() + _TIMEOUT
        while True:
            running = self._find_postmaster()
            if running and running.is_ready():
                return running
            if time.monotonic() > deadline:
                raise StoreError(f"PostgreSQL in {self._path} is not ready", retryable=True)
            if running is None:
                self._launch(options)
            time.sleep(0.02)

    def stop(self) -> None:
        """Stops the server, if it runs."""
        running = self._find_postmaster()
        if running is None:
            return
        with suppress(StoreError):
            wait = ("-w", "-t", str(_TIMEOUT), "-s")
            self._run("pg_ctl", "stop", "-D", self._path, "-m", "fast", *wait)
        if self._find_postmaster():
            raise StoreError(f"PostgreSQL in {self._path} did not stop", retryable=True)
        if running.socket_dir:
            with suppress(OSError):
                Path(running.socket_dir).rmdir()

    def _ensure_initialised(self) -> None:
        if self._path.exists():
            self._check_existing()
            return
        for leftover in self._home.glob(f"{self._path.name}.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(prefix=f"{self._path.name}.new-", dir=self._home))
        try:
            if self._account:
                os.chown(fresh, self._account.pw_uid, self._account.pw_gid)
            self._initdb(fresh)
            fresh.rename(self._path)
            sync_dir(self._home)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _initdb(self, fresh: Path) -> None:
        fixed = "-U postgres --encoding=UTF8 --locale=C --no-instructions --auth-local=trust"
        fixed += " --locale-provider=builtin --builtin-locale=C.UTF-8"
        args = ["-D", str(fresh), *fixed.split(), *self._host_auth()]
        # Sorting and case follow the builtin locale, but pg_trgm still asks the C library which
        # characters are letters, and there the locale C knows only ASCII.
        for ctype in ("C.UTF-8", "en_US.UTF-8"):
            try:
                return self._run("initdb", *args, f"--lc-ctype={ctype}")
            except StoreError as error:
                if "invalid locale name" not in str(error):
                    raise
        self._run("initdb", *args)

    def _check_existing(self) -> None:
        version_file = self._path / "PG_VERSION"
        version = version_file.read_text().strip() if version_file.exists() else "none"
        if version != _MAJOR:
            raise ConfigError(
                f"{self._path} is a cluster of PostgreSQL version {version}, not {_MAJOR}: move it "
                "away, or carry it over with pg_upgrade"
            )

    def _host_auth(self) -> list[str]:
        if _UNIX_SOCKETS:
            return ["--auth-host=reject"]
        password = self._home / "password"
        password.unlink(missing_ok=True)
        with os.fdopen(open_private(password, self._account), "w") as file:
            file.write(secrets.token_hex(16))
        return ["--auth-host=scram-sha-256", f"--pwfile={password}"]

    def _find_postmaster(self) -> Postmaster | None:
        pid_file = self._path / "postmaster.pid"
        try:
            lines = [line.strip() for line in pid_file.read_text().splitlines()]
        except FileNotFoundError:
            return None
        lines += [""] * (8 - len(lines))
        found = Postmaster(abs(int(lines[0] or 0)), lines[3], lines[4], lines[7])
        if found.pid and found.is_alive(self._path):
            return found
        if not found.pid or psutil.pid_exists(found.pid):
            # PostgreSQL would take an unrelated process with that id for another server.
            pid_file.unlink()
        return None

    def _launch(self, options: Mapping[str, str]) -> None:
        settings = {**_SETTINGS, **options, **self._listen()}
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        wait = ("-w", "-t", str(_TIMEOUT), "-s", "-l", self._log)
        try:
            self._run("pg_ctl", "start", "-D", self._path, *wait, "-o", shlex.join(flags))
        except StoreError as error:
            # The last sessions of a killed server are about to notice; the caller tries again.
            if "pre-existing shared memory block" not in str(error):
                raise

    def _listen(self) -> dict[str, str]:
        if _UNIX_SOCKETS:
            folder = self._socket_dir()
            # Like a stale postmaster.pid: its process id may belong to another process by now.
            (folder / ".s.PGSQL.5432.lock").unlink(missing_ok=True)
            host, port, directories = "", 5432, f'"{folder}"'
        else:
            host, directories = HOST, ""
            with socket.create_server((host, 0)) as probe:
                port = probe.getsockname()[1]
        return {
            "listen_addresses": host,
            "port": str(port),
            "unix_socket_directories": directories,
        }

    def _socket_dir(self) -> Path:
        name = f"context-engine-{hashlib.sha256(os.fsencode(self._home)).hexdigest()[:16]}"
        for path in (self._home / "run", Path(tempfile.gettempdir(), name), Path("/tmp", name)):
            length = len(os.fsencode(path / ".s.PGSQL.5432"))
            reachable = not (self._account and blocked_at(path.parent, self._account))
            # libpq splits the name of a socket directory at commas.
            if reachable and length <= _SOCKET_PATH_LIMIT and "," not in str(path):
                return private_dir(path, self._account)
        raise ConfigError("no directory is fit for a unix socket: set TMPDIR to a short path")

    def _run(self, program: str, *args: str | Path) -> None:
        env = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        account = self._account
        with os.fdopen(open_private(self._log, account), "ab") as log:
            start = os.fstat(log.fileno()).st_size
            done = subprocess.run(
                [self._programs / program, *args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._home,
                env={**env, "LC_ALL": "C"},
                start_new_session=True,
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[] if account else None,
            )
        if done.returncode:
            tail = self._log.read_bytes()[start:].decode(errors="replace").splitlines()[-20:]
            raise StoreError("\n".join([f"{program} failed for {self._path}:", *tail]))
