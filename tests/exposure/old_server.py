"""A server with pgvector 0.6.2, from the wheel pgserver: its programs are used, its launcher is not."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from context_engine.db.embedded_host import is_root, service_account


def is_there() -> bool:
    return importlib.util.find_spec("pgserver") is not None


def _programs(home: Path) -> Path:
    """Copy the programs to where a service user can run them; the originals are left as they are."""
    spec = importlib.util.find_spec("pgserver")
    assert spec and spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    target = home / "wheel"
    for source in (package / "pginstall", package.with_name("pgserver.libs")):
        kept = target / ("pgserver/pginstall" if source.name == "pginstall" else source.name)
        shutil.copytree(source, kept, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    return target / "pgserver" / "pginstall" / "bin"


@contextmanager
def old_server() -> Iterator[str]:
    """Run the server; gives the URL of its database."""
    account = service_account(Path("/nonexistent")) if is_root() else None
    home = Path(tempfile.mkdtemp(prefix="old-pgvector-"))
    home.chmod(0o755)
    programs = _programs(home)
    data, run = home / "data", home / "run"
    for folder in (data, run):
        folder.mkdir(mode=0o700)
        if account:
            os.chown(folder, account.pw_uid, account.pw_gid)

    def call(program: str, *arguments: str) -> None:
        subprocess.run(
            [programs / program, *arguments],
            check=True,
            cwd=run,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )

    options = f"-c listen_addresses= -c unix_socket_directories={run} -c fsync=off"
    try:
        call("initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        call("pg_ctl", "start", "-w", "-s", "-D", str(data), "-l", str(run / "log"), "-o", options)
        try:
            yield f"postgresql://postgres@/postgres?host={quote(str(run), safe='')}"
        finally:
            call("pg_ctl", "stop", "-w", "-s", "-m", "immediate", "-D", str(data))
    finally:
        shutil.rmtree(home, ignore_errors=True)
