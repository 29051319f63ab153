"""Who asks and who may read: checked and brought to one form before anything else happens.

The rule for odd values, the same at every door: `None`, an empty string, a bare string, bytes and anything that is
not a string are errors; duplicates count once; every principal is NFC-normalised, on both sides.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from context_engine.errors import InputError
from context_engine.model import ACL, PUBLIC, TRUSTED, Policy, Public, Trusted

MAX_NAME_BYTES: Final = 1_000
MAX_MEMBERS: Final = 20_000
MAX_FILTER_VALUES: Final = 1_000
MAX_FILTER_CHARS: Final = 10_000
_MAX_BIGINT: Final = (1 << 63) - 1


def normalise_name(value: object, what: str) -> str:
    """Check a principal, source or policy name and bring it to NFC.

    Raises:
        InputError: when it is no string, empty, too long, or holds what no database can store.
    """
    if not isinstance(value, str):
        raise InputError(f"{what} must be a string, not {type(value).__name__}")
    if not value:
        raise InputError(f"{what} must not be empty")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InputError(f"{what} holds a lone surrogate, which cannot be stored") from error
    if "\0" in value:
        raise InputError(f"{what} holds U+0000, which cannot be stored")
    if size > MAX_NAME_BYTES:
        raise InputError(f"{what} is {size} bytes long; at most {MAX_NAME_BYTES} are allowed")
    return unicodedata.normalize("NFC", value)


def _members(value: object, what: str) -> list[object]:
    if isinstance(value, str | bytes) or not isinstance(value, list | tuple | set | frozenset):
        kind = "a bare string" if isinstance(value, str) else type(value).__name__
        raise InputError(f"{what} must be a list of principals, not {kind}")
    items: list[object] = list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if len(items) > MAX_MEMBERS:
        raise InputError(f"{what} names {len(items)} principals; at most {MAX_MEMBERS} are allowed")
    return items


def normalise_principals(value: object, what: str = "principals") -> tuple[str, ...]:
    """Check a list of principals: sorted, without duplicates.

    Raises:
        InputError: when it is no list, tuple or set of valid names.
    """
    items = _members(value, what)
    return tuple(sorted({normalise_name(item, f"a principal in {what}") for item in items}))


@dataclass(frozen=True, slots=True)
class AccessRule:
    """An ACL in its one form: sorted, unique, NFC; two equal rules are the same access class."""

    public: bool
    allow: tuple[str, ...]
    require: tuple[str, ...]
    deny: tuple[str, ...]

    @property
    def digest(self) -> bytes:
        """32 bytes that are equal exactly when the rules are."""
        canonical = json.dumps([self.public, self.allow, self.require, self.deny])
        return hashlib.sha256(canonical.encode()).digest()

    def members(self) -> list[tuple[str, str]]:
        """List (principal, kind) rows as they are stored."""
        kinds = (("allow", self.allow), ("require", self.require), ("deny", self.deny))
        return [(principal, kind) for kind, names in kinds for principal in names]


def normalise_acl(value: object) -> AccessRule | Policy:
    """Bring anything that may stand as an ACL to its one form.

    Raises:
        InputError: for `None`, a bare string, or an invalid principal.
    """
    if isinstance(value, Policy):
        return Policy(normalise_name(value.name, "a policy's name"))
    if isinstance(value, Public):
        return AccessRule(True, (), (), ())
    if value is None or isinstance(value, str | bytes):
        raise InputError("an ACL must be a list of principals, ACL(…), Policy(…) or PUBLIC")
    parts: ACL = value if isinstance(value, ACL) else ACL(allow=value)  # pyright: ignore[reportArgumentType]
    allow = [PUBLIC] if isinstance(parts.allow, Public) else _members(parts.allow, "acl")
    names = [item for item in allow if not isinstance(item, Public)]
    return AccessRule(
        public=len(names) < len(allow),
        allow=normalise_principals(names, "acl allow"),
        require=normalise_principals(parts.require, "acl require"),
        deny=normalise_principals(parts.deny, "acl deny"),
    )


def normalise_rule(value: object) -> AccessRule:
    """Bring a policy's definition to its one form; a policy cannot point to another policy."""
    rule = normalise_acl(value)
    if isinstance(rule, Policy):
        raise InputError("a policy is defined by an ACL, not by another policy")
    return rule


@dataclass(frozen=True, slots=True)
class Scope:
    """What a call may touch: the caller's principals and the filters that narrow them.

    Attributes:
        principals: sorted names, or None for `TRUSTED`; only `make_scope` sets it.
        sources: only these namespaces, or None for all.
        documents: only these document ids, or None for all.
        metadata: the filter as a jsonpath predicate, or None.
    """

    principals: tuple[str, ...] | None
    sources: tuple[str, ...] | None = None
    documents: tuple[int, ...] | None = None
    metadata: str | None = None

    @property
    def trusted(self) -> bool:
        """Whether no access condition applies."""
        return self.principals is None

    @property
    def narrowed(self) -> bool:
        """Whether any filter is given."""
        return self.sources is not None or self.narrowed_by_document

    @property
    def narrowed_by_document(self) -> bool:
        """Whether the counts kept per access class and source cannot tell the size of this scope."""
        return self.documents is not None or self.metadata is not None


@dataclass(frozen=True, slots=True)
class Filters:
    """The narrowing arguments of a call, unchecked."""

    sources: Iterable[str] | None = None
    documents: Iterable[int] | None = None
    metadata: Mapping[str, Any] | None = field(default=None)


def make_scope(principals: object, filters: Filters | None = None) -> Scope:
    """Check a caller and its filters.

    Raises:
        InputError: when the caller is anything but `TRUSTED` or a list of principals, or a filter is invalid.
    """
    filters = filters or Filters()
    names = None if isinstance(principals, Trusted) else _caller(principals)
    return Scope(
        principals=names,
        sources=_sources(filters.sources),
        documents=_documents(filters.documents),
        metadata=_metadata_predicate(filters.metadata),
    )


def _caller(principals: object) -> tuple[str, ...]:
    if principals is None:
        raise InputError("principals must be given: a list, [] for an anonymous caller, or TRUSTED")
    return normalise_principals(principals)


def _sources(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    return tuple(sorted({normalise_name(item, "a source") for item in _members(value, "sources")}))


def check_document_id(value: object) -> int:
    """Check the form of a document id.

    Raises:
        InputError: when it is no integer from 0 to 2^63 - 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_BIGINT:
        raise InputError("a document id is an integer from 0 to 9223372036854775807")
    return value


def _documents(value: object) -> tuple[int, ...] | None:
    if value is None:
        return None
    return tuple(sorted({check_document_id(item) for item in _members(value, "documents")}))


_COMPARISONS: Final = {"eq": "==", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _json_literal(value: object, key: str) -> str:
    if isinstance(value, str) and len(value) > MAX_FILTER_CHARS:
        raise InputError(f"metadata filter {key!r}: a value has {len(value)} characters, over {MAX_FILTER_CHARS}")
    if isinstance(value, str):  # as stored text is brought to one form, see text/clean.py
        value = unicodedata.normalize("NFC", value.replace("\r\n", "\n").replace("\r", "\n"))
    if not isinstance(value, str | int | float | bool) and value is not None:
        raise InputError(f"metadata filter {key!r}: values are strings, numbers, true, false or null")
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except ValueError as error:
        raise InputError(f"metadata filter {key!r}: the value cannot be stored in JSON") from error
    if isinstance(value, str) and "\0" in value:
        raise InputError(f"metadata filter {key!r}: U+0000 cannot be stored")
    return text


def _condition(path: str, key: str, wanted: object) -> str:
    if isinstance(wanted, list | tuple | set | frozenset):
        values: list[object] = list(wanted)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if len(values) > MAX_FILTER_VALUES:
            raise InputError(f"metadata filter {key!r}: {len(values)} values; at most {MAX_FILTER_VALUES} are allowed")
        literals = [_json_literal(item, key) for item in values]
        return " || ".join(f"{path} == {literal}" for literal in literals) or "1 == 0"
    if isinstance(wanted, Mapping):
        pairs: dict[object, object] = dict(wanted)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if not pairs or not set(pairs) <= set(_COMPARISONS):
            raise InputError(f"metadata filter {key!r}: comparisons are {', '.join(_COMPARISONS)}")
        return " && ".join(
            f"{path} {_COMPARISONS[str(name)]} {_json_literal(value, key)}" for name, value in pairs.items()
        )
    return f"{path} == {_json_literal(wanted, key)}"


def _metadata_predicate(value: Mapping[str, Any] | None) -> str | None:
    """Write the filter as a jsonpath predicate; a row whose value has another type does not match."""
    if value is None:
        return None
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError("metadata must be a mapping of keys to wanted values")
    conditions: list[str] = []
    for key, wanted in value.items():
        name = normalise_name(key, "a metadata filter's key")
        path = f"$.{_json_literal(name, name)}"
        conditions.append(f"({_condition(path, name, wanted)})")
    return " && ".join(conditions) or None


__all__ = [
    "TRUSTED",
    "AccessRule",
    "Filters",
    "Scope",
    "check_document_id",
    "make_scope",
    "normalise_acl",
    "normalise_name",
    "normalise_principals",
    "normalise_rule",
]
