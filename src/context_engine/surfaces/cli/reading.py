"""Find the files to ingest and read their documents, one at a time; what cannot be read is noted, the rest goes on."""

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from context_engine import Document, InputError
from context_engine.model import STORED
from context_engine.surfaces.cli.lines import read_line
from context_engine.text.extract import SUPPORTED_SUFFIXES, extract

MAX_BYTES: Final = 64 * 1024 * 1024
"""The largest file, and the longest line, that is taken for one document."""

_LINES_SUFFIXES: Final = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_BLOCK: Final = 1024 * 1024
_UNREADABLE: Final = (OSError, EOFError, zlib.error)


class Reader:
    """The documents below some paths; iterate it once, and it tells the failures and each document's place."""

    def __init__(self, paths: Iterable[Path], source: str, acl: Any = STORED) -> None:
        self.files: list[tuple[Path, str]] = []
        self.left_out: Counter[str] = Counter()
        self.failures: list[tuple[str, str]] = []  # (where, why)
        self.places: list[str] = []
        self.exhausted = False
        self._source, self._acl = source, acl
        self._taken: dict[str, Path] = {}
        for path in paths:
            if path.is_dir():
                self._walk(path)
            elif path.exists():
                self._take(path, path.name)
            else:
                self.failures.append((str(path), "no such file or folder"))

    def _walk(self, root: Path) -> None:
        def unreadable(error: OSError) -> None:
            self.failures.append((str(error.filename), str(error.strerror)))

        inside = root.resolve()
        for folder, folders, names in os.walk(root, onerror=unreadable):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for path in (Path(folder, name) for name in sorted(names)):
                kind = _passed_over(path, inside)
                if kind:
                    self.left_out[kind] += 1
                else:
                    self._take(path, path.relative_to(root).as_posix())

    def _take(self, path: Path, external_id: str) -> None:
        first = self._taken.setdefault(external_id, path)
        # A second file with an id that is taken would replace the first.
        if first is path or _holds_lines(path):
            self.files.append((path, external_id))
        else:
            self.failures.append((str(path), f"{first} has the same id: ingest it with a --source of its own"))

    def __iter__(self) -> Iterator[Document]:
        for path, external_id in self.files:
            where = str(path)
            try:
                for where, data in _pieces(path):
                    document = self._document(path, external_id, where, data)
                    if document:
                        self.places.append(where)
                        yield document
            except _UNREADABLE as error:
                self.failures.append((where, f"cannot be read: {getattr(error, 'strerror', None) or error}"))
        self.exhausted = True

    def _document(self, path: Path, external_id: str, where: str, data: bytes) -> Document | None:
        lines = _holds_lines(path)
        try:
            if len(data) > MAX_BYTES:
                raise InputError(f"the {'line' if lines else 'file'} is larger than {MAX_BYTES // 1024**2} MB")
            if lines:
                return read_line(data, self._source, self._acl)
            text = extract(data, path.suffix)
        except InputError as error:
            self.failures.append((where, str(error)))
            return None
        name = text.title or path.name
        return Document(text=text.text, name=name, external_id=external_id, source=self._source, acl=self._acl)

    def count(self) -> int:
        """Count what reading will come across, without taking it apart."""
        total = len(self.failures)
        for path, _ in self.files:
            with suppress(*_UNREADABLE):
                for _ in _pieces(path) if _holds_lines(path) else [path]:
                    total += 1
        return total


def _passed_over(path: Path, inside: Path) -> str | None:
    """Say what kind of file this is when it is not for us."""
    if path.name.startswith("."):
        return "hidden"
    # A link out of the folder would publish, under this folder's ACL, what nobody meant to give.
    if path.is_symlink() and not path.resolve().is_relative_to(inside):
        return "links out of the folder"
    if not _holds_lines(path) and path.suffix.lower() not in SUPPORTED_SUFFIXES:
        return path.suffix or "no suffix"
    return None if path.is_file() or path.is_symlink() else "not a file"


def _holds_lines(path: Path) -> bool:
    return path.name.lower().endswith(_LINES_SUFFIXES)


def _pieces(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield where a document is, and its bytes, cut behind the limit; the rest of a line is passed over."""
    packed = _holds_lines(path) and path.suffix.lower() == ".gz"
    with cast(BinaryIO, gzip.open(path) if packed else path.open("rb")) as stream:
        if not _holds_lines(path):
            yield str(path), stream.read(MAX_BYTES + 1)
            return
        number = 0
        while line := stream.readline(MAX_BYTES + 1):
            number += 1
            if line.strip():
                yield f"{path}:{number}", line
            rest = line if len(line) > MAX_BYTES else b"\n"
            while rest and not rest.endswith(b"\n"):
                rest = stream.readline(_BLOCK)
