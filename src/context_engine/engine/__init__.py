"""The engine: `AsyncEngine`, and `Engine` generated from it."""

from context_engine.engine._async.engine import AsyncEngine
from context_engine.engine._sync.engine import Engine

__all__ = ["AsyncEngine", "Engine"]
