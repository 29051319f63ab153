import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from context_engine.db import embedded_cluster, embedded_host
from context_engine.db.embedded import EmbeddedServer
from context_engine.errors import ConfigError, StoreError

ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
FAST = {"fsync": "off", "shared_buffers": "16MB"}

# Starts, reports, and holds its handle until standard input ends.
HOLDER = """
import signal, sys, psycopg
signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background starts with it ignored
from pathlib import Path
from context_engine.db.embedded import EmbeddedServer
server = EmbeddedServer.start(
    Path(sys.argv[1]) if len(sys.argv) > 1 else None,
    options={"fsync": "off", "shared_buffers": "16MB"},
)
with psycopg.connect(server.url()) as connection:
    row = connection.execute(
        "SELECT system_identifier, pg_postmaster_start_time() FROM pg_control_system()"
    ).fetchone()
print(server.data_dir, *row, sep="|", flush=True)
sys.stdin.read()
server.close()
"""


def hold(*args: Path, script: str = HOLDER, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, args)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **{**pipes, **options})


def scratch_parent() -> str | None:
    """Memory where there is enough: a busy disk would take most of the time of these tests."""
    with contextlib.suppress(OSError):
        memory = os.statvfs("/dev/shm")
        if memory.f_bavail * memory.f_frsize > 2**30 and not memory.f_flag & os.ST_NOEXEC:
            return "/dev/shm"
    return None


@contextlib.contextmanager
def scratch_dir() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="ce-", dir=scratch_parent()))
    if ROOT:
        path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_dir() as path:
        yield path


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    with scratch_dir() as path:
        EmbeddedServer.start(path / "data", options=FAST).close()
        yield path / "data"


@pytest.fixture
def data_dir(shared: Path) -> Path:
    """An initialised, stopped data directory, for tests that leave it as it was."""
    assert is_stopped(shared)
    return shared


@pytest.fixture
def own_data_dir(data_dir: Path, scratch: Path) -> Path:
    """Another one, to do with as one likes."""
    subprocess.run(["cp", "-a", data_dir, scratch / "data"], check=True)
    return scratch / "data"


def query(server: EmbeddedServer, sql: str) -> tuple[object, ...]:
    with psycopg.connect(server.url()) as connection:
        cursor = connection.execute(sql)
        return (cursor.fetchone() or ()) if cursor.description else ()


def postmaster_pid(data_dir: Path) -> int:
    return int((data_dir / "postgres-18" / "postmaster.pid").read_text().split()[0])


def wheel_is_reachable() -> bool:
    package = embedded_host.package_dir()
    return package is not None and all(path.stat().st_mode & 0o001 for path in package.parents)


def is_stopped(data_dir: Path) -> bool:
    return not (data_dir / "postgres-18" / "postmaster.pid").exists()


def test_a_new_directory_gets_a_private_utf8_cluster_with_the_extensions(scratch: Path) -> None:
    home = scratch / "a b ü'%" / "data"
    leftover = home / "postgres-18.new-killed"
    leftover.mkdir(parents=True)
    with EmbeddedServer.start(home, options=FAST) as server:
        settings = query(
            server,
            "SELECT current_setting('listen_addresses'), current_setting('server_encoding'),"
            " current_setting('jit'), current_setting('fsync'), datlocprovider, datlocale"
            " FROM pg_database WHERE datname = 'template1'",
        )
        assert settings == ("", "UTF8", "off", "off", "b", "C.UTF-8")
        query(server, "CREATE EXTENSION vector")
        query(server, "CREATE EXTENSION pg_trgm")
        assert query(server, "SELECT '[1,2]'::vector <-> '[1,4]', lower('ПРИВЕТ')") == (2, "привет")
        assert query(server, "SELECT similarity('привет мир', 'привет')") != (0,)
        assert query(server, "SELECT current_user") == ("postgres",)
        socket_dir = home / "run"
        assert socket_dir.stat().st_mode & 0o777 == 0o700
        assert (home / "postgres-18").stat().st_mode & 0o777 == 0o700
        assert (home / "postgres.log").stat().st_mode & 0o777 == 0o600
    assert is_stopped(home)
    assert not leftover.exists()


def test_a_restart_keeps_data_and_other_databases_have_urls(own_data_dir: Path) -> None:
    with EmbeddedServer.start(own_data_dir, options=FAST) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute('CREATE DATABASE "a/b ä"')
        with psycopg.connect(server.url("a/b ä")) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS value")
    assert is_stopped(own_data_dir)
    with (
        EmbeddedServer.start(own_data_dir, options=FAST) as server,
        psycopg.connect(server.url("a/b ä")) as connection,
    ):
        assert connection.execute("SELECT value FROM kept").fetchone() == (42,)


def test_two_handles_in_one_process_share_the_server(data_dir: Path) -> None:
    first = EmbeddedServer.start(data_dir, options=FAST)
    second = EmbeddedServer.start(data_dir)
    assert first.url() == second.url()
    first.close()
    first.close()
    assert query(second, "SELECT 1") == (1,)
    second.close()
    assert is_stopped(data_dir)
    first.close()


def test_eight_processes_race_to_one_cluster_and_one_server(scratch: Path) -> None:
    home = scratch / "data"
    holders = [hold(home) for _ in range(8)]
    reports = {holder.stdout.readline() for holder in holders if holder.stdout}
    assert len(reports) == 1
    assert str(home) in reports.pop()
    for holder in holders:
        assert holder.communicate()[0] == ""
        assert holder.returncode == 0
    assert is_stopped(home)
    log = (home / "postgres.log").read_text()
    assert log.count("creating configuration files") == 1
    assert log.count("starting PostgreSQL") == 1
    assert not list(home.glob("postgres-18.new-*"))


def test_committed_rows_survive_a_killed_server(own_data_dir: Path) -> None:
    with EmbeddedServer.start(own_data_dir, options=FAST) as lost:
        query(lost, "CREATE TABLE kept AS SELECT generate_series(1, 1000) AS value")
        with psycopg.connect(lost.url()):
            killed = psutil.Process(postmaster_pid(own_data_dir))
            killed.kill()
            killed.wait(30)
            with EmbeddedServer.start(own_data_dir, options=FAST) as again:
                assert query(again, "SELECT count(*) FROM kept") == (1000,)
    assert is_stopped(own_data_dir)
    assert "automatic recovery in progress" in (own_data_dir / "postgres.log").read_text()


@pytest.mark.parametrize("content", ["", "{}\n/elsewhere\n1\n5432\n\n\n\nready\n"])
def test_a_stale_lock_file_does_not_prevent_the_start(data_dir: Path, content: str) -> None:
    of_another_process = content.format(os.getpid())
    (data_dir / "postgres-18" / "postmaster.pid").write_text(of_another_process)
    with EmbeddedServer.start(data_dir, options=FAST) as server:
        assert query(server, "SELECT 1") == (1,)


def test_a_killed_process_does_not_keep_the_server_running(data_dir: Path) -> None:
    holder = hold(data_dir)
    assert holder.stdout and holder.stdin
    holder.stdout.readline()
    holder.kill()
    holder.communicate()
    pid = postmaster_pid(data_dir)
    with EmbeddedServer.start(data_dir):
        assert postmaster_pid(data_dir) == pid
    assert is_stopped(data_dir)


def test_ctrl_c_for_the_starting_process_leaves_the_server_to_others(data_dir: Path) -> None:
    starter = hold(data_dir, start_new_session=True, stderr=subprocess.PIPE)
    assert starter.stdout
    starter.stdout.readline()
    with EmbeddedServer.start(data_dir) as server:
        os.killpg(starter.pid, signal.SIGINT)
        assert "KeyboardInterrupt" in starter.communicate()[1]
        assert query(server, "SELECT 1") == (1,)
    assert is_stopped(data_dir)


def test_a_process_that_ends_without_closing_stops_the_server(data_dir: Path) -> None:
    script = HOLDER.replace("server.close()", "")
    subprocess.run([sys.executable, "-c", script, data_dir], stdin=subprocess.DEVNULL, check=True, timeout=60)
    assert is_stopped(data_dir)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_leaves_its_parents_handle(data_dir: Path) -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from context_engine.db.embedded import EmbeddedServer\n"
        "server = EmbeddedServer.start(Path(sys.argv[1]))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    server.close()\n"
        "    sys.exit()\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "print((Path(sys.argv[1]) / 'postgres-18' / 'postmaster.pid').exists())\n"
    )
    command = [sys.executable, "-c", script, data_dir]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n"
    assert is_stopped(data_dir)


@pytest.mark.parametrize("name", ["d" * 100, "a,b"])
def test_a_path_unfit_for_sockets_gets_another_socket_directory(own_data_dir: Path, name: str) -> None:
    deep = own_data_dir.parent / name / "data"
    deep.parent.mkdir()
    own_data_dir.rename(deep)
    with EmbeddedServer.start(deep, options=FAST) as server:
        (sockets,) = query(server, "SELECT current_setting('unix_socket_directories')")
        short = Path(str(sockets).strip('"'))
        assert not short.is_relative_to(deep)
        assert short.stat().st_mode & 0o777 == 0o700
        assert short.stat().st_uid == (deep / "postgres-18").stat().st_uid
    assert not short.exists()
    short.mkdir(mode=0o755)
    try:
        if ROOT:
            os.chown(short, 65534, -1)
        with pytest.raises(ConfigError, match="mode 0700"):
            EmbeddedServer.start(deep, options=FAST)
    finally:
        short.rmdir()


def test_a_port_asks_for_the_password(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_cluster, "_UNIX_SOCKETS", False)
    with EmbeddedServer.start(scratch / "data", options=FAST) as server:
        assert query(server, "SELECT current_setting('listen_addresses')") == ("127.0.0.1",)
        password = (scratch / "data" / "password").read_text()
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(server.url().replace(password, "wrong"))
    with EmbeddedServer.start(scratch / "data", options=FAST) as server:
        assert query(server, "SELECT 1") == (1,)


def test_a_failed_start_reports_the_log(data_dir: Path) -> None:
    with pytest.raises(StoreError, match='invalid value for parameter "work_mem": "much"'):
        EmbeddedServer.start(data_dir, options={"work_mem": "much"})
    assert is_stopped(data_dir)


def test_another_major_version_is_refused(own_data_dir: Path) -> None:
    (own_data_dir / "postgres-18" / "PG_VERSION").write_text("17\n")
    with pytest.raises(ConfigError, match="version 17, not 18"):
        EmbeddedServer.start(own_data_dir)


def test_without_the_wheel_the_error_names_the_extra(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'context-engine\[local\]'"):
        EmbeddedServer.start(scratch)


def test_a_path_that_the_shell_would_read_is_refused(scratch: Path) -> None:
    with pytest.raises(ConfigError, match="character"):
        EmbeddedServer.start(scratch / "$(touch x)")


def test_a_file_in_the_place_of_the_data_directory_is_told(scratch: Path) -> None:
    (scratch / "file").write_text("mine")
    with pytest.raises(ConfigError, match="file is a file"):
        EmbeddedServer.start(scratch / "file")
    assert (scratch / "file").read_text() == "mine"


def test_the_environment_names_the_default_directory(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(data_dir))
    monkeypatch.setenv("SECRET_KEY", "x")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGDATA", "/nowhere")
    with EmbeddedServer.start(options=FAST) as server:
        assert server.data_dir == data_dir.resolve()
        assert "port=5432" in server.url()
        assert "SECRET_KEY" not in psutil.Process(postmaster_pid(data_dir)).environ()


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_root_is_told_which_directory_its_service_user_cannot_enter(scratch: Path) -> None:
    closed = scratch / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ConfigError, match=f"cannot enter {closed.resolve()}:.*chmod o[+]x"):
        EmbeddedServer.start(closed / "below" / "data")
    assert closed.stat().st_mode & 0o777 == 0o700
    assert not list(closed.iterdir())


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_root_runs_a_copy_of_a_wheel_that_its_service_user_cannot_reach(
    data_dir: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = embedded_host.package_dir()
    assert installed
    hidden = scratch / "hidden"
    for name in (installed.name, f"{installed.name}.libs"):
        if installed.with_name(name).exists():
            shutil.copytree(installed.with_name(name), hidden / name)
    hidden.chmod(0o700)
    monkeypatch.setattr(embedded_host, "package_dir", lambda: hidden / installed.name)
    monkeypatch.setattr(embedded_host, "SYSTEM_DIR", scratch / "system")
    monkeypatch.setattr(os, "sync", lambda: None)
    for _ in range(2):
        with EmbeddedServer.start(data_dir, options=FAST):
            assert (scratch / "system").stat().st_mode & 0o777 == 0o755
            command = Path(f"/proc/{postmaster_pid(data_dir)}/exe")
            assert command.readlink().is_relative_to(scratch / "system")
    assert len(list((scratch / "system").iterdir())) == 1
    # The program that needs the sibling directory with the libraries.
    (initdb,) = scratch.glob("system/server-*/*/pginstall/bin/initdb")
    subprocess.run([initdb, "--version"], check=True, user="nobody", stdout=subprocess.DEVNULL)


@pytest.mark.skipif(not ROOT, reason="as an ordinary user the other tests show this")
@pytest.mark.skipif(not wheel_is_reachable(), reason="another user cannot reach the wheel")
def test_an_ordinary_user_gets_a_server_of_its_own(scratch: Path) -> None:
    os.chown(scratch, 65534, 65534)
    # Python itself may lie where only root can read, so it is loaded before the user changes.
    drop = (
        "import os, psycopg\n"
        "from context_engine.db import embedded\n"
        "os.setgroups([]), os.setgid(65534), os.setuid(65534)\n"
    )
    kept = {name: os.environ.get(name, "") for name in ("PATH", "PYTHONPATH")}
    environment = {**kept, "HOME": str(scratch)}
    holder = hold(script=drop + HOLDER, cwd=scratch, env=environment)
    assert holder.stdout
    home = Path(holder.stdout.readline().partition("|")[0])
    assert home == scratch / ".local" / "share" / "context-engine"
    assert (home / "postgres-18").stat().st_uid == 65534
    assert home.stat().st_mode & 0o777 == 0o700
    holder.communicate()
    assert holder.returncode == 0
    assert is_stopped(home)


def test_a_socket_that_answers_counts_as_a_running_server(data_dir: Path) -> None:
    """As seen from a container that shares the directory but not the process ids."""
    with EmbeddedServer.start(data_dir, options=FAST):
        pid_file = data_dir / "postgres-18" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        elsewhere = embedded_cluster.Postmaster(2**22 + 1, lines[3], lines[4], "ready")
        assert elsewhere.is_alive(data_dir / "postgres-18")
    assert not elsewhere.is_alive(data_dir / "postgres-18")
