"""Find the files to ingest and read their documents, one at a time; what cannot be read is noted, the rest goes on."""

import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from context_engine import ACL, PUBLIC, Document, InputError, Policy
from context_engine.model import STORED
from context_engine.text.extract import SUPPORTED_SUFFIXES, extract

MAX_BYTES: Final = 64 * 1024 * 1024  # the largest file, and the longest line, that is taken for one document
_LINES_SUFFIXES: Final = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_BLOCK: Final = 1024 * 1024
_UNREADABLE: Final = (OSError, EOFError, zlib.error)

_ACL_KEYS: Final = frozenset({"allow", "require", "deny", "public", "policy"})
# A misspelt or misplaced rule must not fall back to the command's own, which may be wider.
_MISPLACED: Final = _ACL_KEYS | {"acl", "acls", "access", "principals", "permissions", "visibility"}
_NAMES: dict[type, str] = {bool: "true or false", str: "a string", list: "a list", dict: "an object"}


def _looks_like_a_rule(key: str) -> bool:
    plain = key.strip().lower()
    return plain in _MISPLACED or plain.startswith(("acl", "allow")) or sorted(plain) == sorted("acl")


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
        inside = root.resolve()
        walk = os.walk(root, onerror=lambda e: self.failures.append((e.filename, str(e.strerror))))
        for folder, folders, names in walk:
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


def read_line(line: bytes, source: str, acl: Any = STORED) -> Document:
    """Read one line of JSON. Strict where access is concerned: a line that is unclear is refused."""
    fields = _parse(line)
    for key in fields:
        if key != "acl" and _looks_like_a_rule(key):
            raise InputError(f'who may read goes under the key "acl", not "{key}"')
    if type(fields.get("id")) is int:
        fields["id"] = str(fields["id"])
    return Document(
        text=_take(fields, "text", str),
        name=_take(fields, "title", str, ""),
        external_id=_take(fields, "id", str),
        source=_take(fields, "source", str, source),
        acl=_acl(fields["acl"]) if "acl" in fields else acl,
        metadata=_take(fields, "metadata", dict, {}),
    )


def _parse(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8-sig"), object_pairs_hook=_unique)
    except UnicodeDecodeError:
        raise InputError("not UTF-8") from None
    except RecursionError:
        raise InputError("nested too deeply") from None
    except ValueError as error:
        raise InputError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError("not a JSON object")
    return cast(dict[str, Any], value)


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InputError(f'the key "{key}" is there twice')
        found[key] = value
    return found


def _take(fields: dict[str, Any], key: str, kind: type, default: Any = None) -> Any:
    value = fields.get(key, default)
    if not isinstance(value, kind):
        wanted = "a list of principals" if kind is list else _NAMES[kind]
        raise InputError(f'"{key}" must be {wanted}, not {_name(value) if key in fields else "missing"}')
    return value


def _name(value: object) -> str:
    return "null" if value is None else _NAMES.get(type(value), "a number")


def _acl(rule: Any) -> Any:
    if isinstance(rule, list):
        return cast(list[Any], rule)
    if not isinstance(rule, dict):
        raise InputError(f'"acl" must be a list of principals or an object, not {_name(rule)}')
    rule = cast(dict[str, Any], rule)
    unknown = sorted(rule.keys() - _ACL_KEYS)
    if unknown:
        raise InputError(f'"acl" has a key "{unknown[0]}"; there are {", ".join(sorted(_ACL_KEYS))}')
    if not rule.keys() & {"allow", "public", "policy"}:
        raise InputError('"acl" must say who may read: "allow", "public" or "policy"')
    if "policy" in rule:
        if len(rule) > 1:
            raise InputError("a policy stands alone: it has its own allow, require and deny")
        return Policy(_take(rule, "policy", str))
    public = [PUBLIC] * _take(rule, "public", bool, False)
    allow, require, deny = (_take(rule, key, list, []) for key in ("allow", "require", "deny"))
    return ACL(public + allow, require, deny)
