"""Read documents from files, one at a time; what cannot be read is noted, and the rest goes on."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import BinaryIO, Final, cast

from context_engine import Document, InputError
from context_engine.surfaces.cli.files import Failure, Found, InputFile
from context_engine.surfaces.cli.lines import Defaults, read_line
from context_engine.surfaces.cli.output import printable_path
from context_engine.text.extract import extract

MAX_BYTES: Final = 64 * 1024 * 1024
"""The largest file, and the longest line, that is taken for one document."""

_BLOCK: Final = 1024 * 1024
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_UNREADABLE = (OSError, EOFError, zlib.error)


class Reader:
    """The documents of the files found; iterate it once.

    Attributes:
        failures: what was not read, and why.
        exhausted: whether everything has been read.
    """

    def __init__(self, found: Found, defaults: Defaults) -> None:
        self.failures = list(found.failures)
        self.exhausted = False
        self._files = found.files
        self._defaults = defaults
        self._places: list[tuple[InputFile, int | None]] = []

    def __iter__(self) -> Iterator[Document]:
        for file in self._files:
            yield from self._lines(file) if file.holds_lines else self._whole(file)
        self.exhausted = True

    @property
    def count(self) -> int:
        """How many documents have been read so far."""
        return len(self._places)

    def where(self, index: int) -> str:
        """Name the file, and the line, of a document by its place in the order of reading."""
        return _where(*self._places[index])

    def _fail(self, file: InputFile, line: int | None, error: Exception) -> None:
        self.failures.append(Failure(_where(file, line), _reason(error)))

    def _whole(self, file: InputFile) -> Iterator[Document]:
        try:
            with file.path.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
            _check_size(data, "file")
            extracted = extract(data, file.path.suffix)
        except (InputError, *_UNREADABLE) as error:
            self._fail(file, None, error)
            return
        self._places.append((file, None))
        yield Document(
            text=extracted.text,
            name=extracted.title or file.path.name,
            external_id=file.external_id,
            source=self._defaults.source,
            acl=self._defaults.acl,
        )

    def _lines(self, file: InputFile) -> Iterator[Document]:
        number = 1
        try:
            with _open(file) as stream:
                for number, line in enumerate(_split(stream), 1):
                    document = self._line(file, number, line)
                    if document:
                        self._places.append((file, number))
                        yield document
        except _UNREADABLE as error:
            self._fail(file, number, error)

    def _line(self, file: InputFile, number: int, line: bytes) -> Document | None:
        if number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line.strip():
            return None
        try:
            _check_size(line, "line")
            return read_line(line, self._defaults)
        except InputError as error:
            self._fail(file, number, error)
            return None


def count_documents(files: Iterable[InputFile]) -> int:
    """Count what a reader will come across, without taking it apart."""
    total = 0
    for file in files:
        if not file.holds_lines:
            total += 1
            continue
        last = b"\n"
        with suppress(*_UNREADABLE), _open(file) as stream:
            while block := stream.read(_BLOCK):
                total += block.count(b"\n")
                last = block[-1:]
        total += last != b"\n"
    return total


def _open(file: InputFile) -> BinaryIO:
    packed = file.path.suffix.lower() == ".gz"
    return cast(BinaryIO, gzip.open(file.path, "rb") if packed else file.path.open("rb"))


def _split(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines; one that is too long ends behind the limit, and the rest of it is passed over."""
    while line := stream.readline(MAX_BYTES + 1):
        yield line
        rest = line if len(line) > MAX_BYTES else b"\n"
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(_BLOCK)


def _check_size(data: bytes, what: str) -> None:
    if len(data) > MAX_BYTES:
        raise InputError(f"the {what} is larger than {MAX_BYTES // 1024**2} MB")


def _where(file: InputFile, line: int | None) -> str:
    path = printable_path(file.path)
    return path if line is None else f"{path}:{line}"


def _reason(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    return f"cannot be read: {error}"
