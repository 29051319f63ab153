"""Start the embedded database only where it is wanted: it comes with an optional extra."""

from pathlib import Path

from context_engine.db.embedded import EmbeddedServer


def start_embedded(data_dir: Path | None) -> EmbeddedServer:
    """Start, or join, the embedded server."""
    return EmbeddedServer.start(data_dir)
