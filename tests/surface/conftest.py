"""The command line, run in this process on a database of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from context_engine.models.hashing import HashingEmbedder
from context_engine.surfaces.cli.app import app
from context_engine.surfaces.cli.options import Session

Cli = Callable[..., Any]


@pytest.fixture
def cli(database_url: str) -> Cli:
    """Run a command and check how it ends."""

    def run(*arguments: object, exits: int = 0, url: str | None = database_url, embedder: object = None) -> Any:
        session = Session(embedder=embedder or HashingEmbedder(32))
        chosen = ["--database-url", url] if url else []
        result = CliRunner().invoke(
            app,
            [*chosen, *map(str, arguments)],
            obj=session,
            env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"},
        )
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == exits, result.output
        return result

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Make a folder of files; text is written as UTF-8."""

    def make(files: dict[str, str | bytes], name: str = "files") -> Path:
        for relative, content in files.items():
            path = tmp_path / name / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    return make
