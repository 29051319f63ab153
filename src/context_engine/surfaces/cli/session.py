"""What the global options say: which database the commands work on."""

from dataclasses import dataclass
from pathlib import Path

import typer

from context_engine import Engine, Settings


@dataclass(frozen=True, slots=True)
class Session:
    """How to open the engine.

    Attributes:
        embedder: in place of the local model; programs that invoke the app in-process hand it in as the
            context's `obj`.
    """

    database_url: str | None = None
    data_dir: Path | None = None
    embedder: object | None = None

    def engine(self) -> Engine:
        """Make an engine; it opens at its first call."""
        settings = Settings()
        if self.data_dir and settings.database_url:
            raise typer.BadParameter(
                "--data-dir is for the embedded database, but the settings name a database URL "
                "(CONTEXT_ENGINE_DATABASE_URL or context-engine.toml)"
            )
        return Engine(self.database_url, self.data_dir, self.embedder, settings)


def session_of(context: typer.Context) -> Session:
    """Return the session that the global options set up."""
    return context.find_object(Session) or Session()
