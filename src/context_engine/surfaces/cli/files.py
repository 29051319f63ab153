"""Find the files to ingest."""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.surfaces.cli.output import printable_path
from context_engine.text.extract import SUPPORTED_SUFFIXES

LINES_SUFFIXES: Final = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")


class Failure(NamedTuple):
    """Something that was not ingested, and why."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to ingest.

    Attributes:
        external_id: the path below the given folder, with `/` on every system.
    """

    path: Path
    external_id: str

    @property
    def holds_lines(self) -> bool:
        """Whether each line is a document."""
        return self.path.name.lower().endswith(LINES_SUFFIXES)


@dataclass(slots=True)
class Found:
    """What the given paths hold.

    Attributes:
        left_out: how many files of a folder were passed over, by kind.
    """

    files: list[InputFile] = field(default_factory=list[InputFile])
    failures: list[Failure] = field(default_factory=list[Failure])
    left_out: Counter[str] = field(default_factory=Counter[str])


def find_files(paths: Iterable[Path]) -> Found:
    """Walk folders in sorted order; a file that is named itself is taken whatever its suffix."""
    found = Found()
    for path in paths:
        if path.is_dir():
            _walk(path, found)
        elif path.exists():
            found.files.append(InputFile(path, path.name))
        else:
            found.failures.append(Failure(printable_path(path), "no such file or folder"))
    _refuse_shared_ids(found)
    return found


def _walk(root: Path, found: Found) -> None:
    def unreadable(error: OSError) -> None:
        where = printable_path(error.filename or root)
        found.failures.append(Failure(where, error.strerror or "cannot be read"))

    inside = root.resolve()
    for folder, folders, names in os.walk(root, onerror=unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            kind = _passed_over(path, inside)
            if kind:
                found.left_out[kind] += 1
            else:
                found.files.append(InputFile(path, path.relative_to(root).as_posix()))


def _passed_over(path: Path, inside: Path) -> str | None:
    """Say what kind of file this is when it is not for us."""
    if path.name.startswith("."):
        return "hidden"
    # A link out of the folder would publish, under this folder's ACL, what nobody meant to give.
    if path.is_symlink() and not path.resolve().is_relative_to(inside):
        return "links out of the folder"
    name = path.name.lower()
    if not name.endswith(LINES_SUFFIXES) and path.suffix.lower() not in SUPPORTED_SUFFIXES:
        return printable_path(path.suffix) or "no suffix"
    return None if path.is_file() or path.is_symlink() else "not a file"


def _refuse_shared_ids(found: Found) -> None:
    """Refuse a second file with an id that is taken: it would replace the first."""
    taken: dict[str, Path] = {}
    kept: list[InputFile] = []
    for file in found.files:
        first = taken.setdefault(file.external_id, file.path)
        if file.holds_lines or first is file.path:
            kept.append(file)
        else:
            reason = f"{printable_path(first)} has the same id: ingest it with a --source of its own"
            found.failures.append(Failure(printable_path(file.path), reason))
    found.files = kept
