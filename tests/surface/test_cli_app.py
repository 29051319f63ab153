"""The frame of the command line: global options, help, and how errors end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from context_engine import Engine, __version__
from context_engine.surfaces.cli.app import app

COMMANDS = [
    [],
    *([name] for name in ("migrate", "reindex", "ingest", "search", "documents", "delete", "doctor", "maintain")),
    *([name] for name in ("harden", "verify", "explain", "diff", "who-can", "check-acl-exposure")),
    *(["acl", name] for name in ("show", "set")),
    *(["policy", name] for name in ("set", "list")),
    *(["audit", name] for name in ("list", "export", "prune")),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(cli: Any, command: list[str]) -> None:
    output = cli(*command, "--help", url=None).output
    assert "Usage: " in output
    assert command == ["policy", "list"] or "Example" in output
    assert cli(*command, "-h", url=None).output == output


def test_every_command_is_listed_above() -> None:
    listed = {words[0] for words in COMMANDS if words}
    named = {command.name or command.callback.__name__ for command in app.registered_commands}  # pyright: ignore
    assert named | {group.name for group in app.registered_groups} == listed


def test_version(cli: Any) -> None:
    assert cli("--version", url=None).output == f"context-engine {__version__}\n"


def test_migrate(cli: Any, new_database: Any) -> None:
    url = new_database(empty=True)
    assert "applied 0001_initial" in cli("migrate", url=url).output
    assert "up to date" in cli("migrate", url=url).output


def test_reindex(cli: Any, database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the compilation of kernels")
    cli("ingest", str(tmp_path), "--public", "--source", "docs", url=database_url)
    monkeypatch.setenv("CONTEXT_ENGINE_ANALYSER__LANGUAGE", "simple")
    assert "reindex" in cli("search", "kernels", "--anonymous", url=database_url, exits=2).stderr
    assert cli("reindex", url=database_url).output == "1 documents reindexed\n"
    assert "a.txt" in cli("search", "kernels", "--anonymous", url=database_url).output


def test_url_from_the_environment(cli: Any, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_DATABASE_URL", database_url)
    assert "0 of 0" in cli("documents", "--trusted", url=None).output
    both = cli("--data-dir", "/somewhere", "documents", "--trusted", url=None, exits=2)
    assert "CONTEXT_ENGINE_DATABASE_URL" in both.stderr


def test_global_options_that_contradict(cli: Any) -> None:
    assert "choose one" in cli("--data-dir", "/x", "documents", "--trusted", exits=2).stderr
    assert "empty" in cli("--database-url", "", "documents", "--trusted", url=None, exits=2).stderr


def test_data_dir(cli: Any, server: Any, template: str) -> None:
    command = ("--data-dir", server.data_dir, "doctor")
    assert "embedded" in cli(*command, url=None, exits=1).output


def test_a_bad_setting_is_one_line(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_STORAGE__POOL_SIZE", "many")
    result = cli("documents", "--trusted", exits=2)
    assert result.stderr.startswith("error: invalid settings: storage.pool_size")
    assert result.stderr.endswith("(config)\n") and result.stderr.count("\n") == 1


def test_an_unreachable_database_is_one_line_without_the_password(
    cli: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_STORAGE__CONNECT_TIMEOUT_S", "0.5")
    for url in ("postgresql://u:hidden@127.0.0.1:1/x", "postgresql://u:hid@den:x@127.0.0.1/x"):
        result = cli("documents", "--trusted", url=url, exits=2)
        assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
        assert "hid" not in result.output and "den" not in result.output
        doctor = cli("doctor", url=url, exits=1)
        assert "problem: " in doctor.output and "hid" not in doctor.output
    assert not caplog.records


def test_a_schema_of_another_version_is_one_line(cli: Any, new_database: Any) -> None:
    url = new_database()
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE context_engine.migration SET version = 9999 WHERE version = 1")
    result = cli("documents", "--trusted", url=url, exits=2)
    assert result.stderr.startswith("error: ") and "(schema_out_of_date)" in result.stderr


def test_an_interrupted_command_ends_with_130(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "search", interrupted)
    assert cli("search", "x", "--trusted", exits=130).stderr == ""


def test_a_terminal_without_the_letters_of_a_name() -> None:
    script = (
        "import sys\n"
        "from context_engine.surfaces.cli.app import main\n"
        "sys.argv = ['context-engine', '--version']\n"
        "try:\n    main()\nexcept SystemExit:\n    print('Stra\\xdfe')\n"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    assert done.stdout.endswith(b"Stra\\xdfe\n")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_a_real_process_cleanly(database_url: str, tmp_path: Path) -> None:
    script = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a run in the background starts with it ignored
        "from context_engine.models.hashing import HashingEmbedder\n"
        "from context_engine.surfaces.cli.app import app\n"
        "from context_engine.surfaces.cli.options import Session\n"
        "class Slow(HashingEmbedder):\n"
        "    def embed_documents(self, texts):\n"
        "        print('embedding', flush=True)\n"
        "        import threading; threading.Event().wait(60)\n"
        "app(sys.argv[1:], obj=Session(embedder=Slow(32)))\n"
    )
    (tmp_path / "a.md").write_text("# A\n\ntext")
    arguments = [
        "--database-url",
        database_url,
        "ingest",
        str(tmp_path),
        "--source",
        "s",
        "--public",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert process.stdout and process.stdout.readline() == "embedding\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == "stopped after 0 documents; run the same command again to go on\n"
