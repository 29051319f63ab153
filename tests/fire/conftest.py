"""A server for each module of these tests, and how far they go."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

# What the case tests share is of use here too.
sys.path.insert(0, str(Path(__file__).parents[1] / "cases"))

from fire_support import OwnServer

Rounds = Callable[[int], int]


def scratch_parent() -> str | None:
    """Memory where there is enough: what dies here is the server, not the machine, and a disk would take the time."""
    with suppress(OSError):
        memory = os.statvfs("/dev/shm")
        if memory.f_bavail * memory.f_frsize > 2**30 and not memory.f_flag & os.ST_NOEXEC:
            return "/dev/shm"
    return None


@pytest.fixture(scope="module")
def own_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ce-fire-", dir=scratch_parent()))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def own_server(own_folder: Path) -> Iterator[OwnServer]:
    server = OwnServer(own_folder)
    yield server
    server.close()


@pytest.fixture(scope="session")
def rounds() -> Rounds:
    """How often to do a thing: a few times in the suite, more under `make fire`."""
    factor = int(os.environ.get("CONTEXT_ENGINE_FIRE", "1"))
    return lambda few: few * factor
