"""Modules and files that come with an optional extra, found without being imported at start."""

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from context_engine.errors import ConfigError


def load_extra(module: str, extra: str) -> ModuleType:
    """Import a module of an extra; ConfigError when it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise _missing(module, extra) from error


def extra_file(package: str, relative: str, extra: str) -> Path:
    """Find a file inside a top-level package, without importing that; ConfigError when it is not there."""
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = Path(folder, relative)
        if path.is_file():
            return path
    raise _missing(f"{package}/{relative}", extra)


def _missing(what: str, extra: str) -> ConfigError:
    return ConfigError(f"{what} cannot be loaded: pip install 'context-engine[{extra}]'")
