"""Who may read, and which metadata match: set logic, written without the engine's SQL."""

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, cast

from context_engine.errors import InputError
from context_engine.model import ACL, AclLike, Policy, Principals, Public, Trusted


@dataclass(frozen=True, slots=True)
class Rule:
    """An ACL as sets."""

    everyone: bool
    allow: frozenset[str]
    require: frozenset[str]
    deny: frozenset[str]

    def admits(self, caller: frozenset[str] | None) -> bool:
        """Tell whether a caller may read; None is `TRUSTED`."""
        if caller is None:
            return True
        allowed = self.everyone or not self.allow.isdisjoint(caller)
        return allowed and self.require <= caller and self.deny.isdisjoint(caller)


def nfc(name: str) -> str:
    """Bring a name to the one form in which names are compared."""
    return unicodedata.normalize("NFC", name)


def read_caller(principals: Principals) -> frozenset[str] | None:
    """Read a caller; None is `TRUSTED`."""
    return None if isinstance(principals, Trusted) else frozenset(map(nfc, principals))


def read_rule(acl: AclLike, policies: Mapping[str, AclLike]) -> Rule:
    """Read an ACL, following a policy to its definition.

    Raises:
        InputError: when it names a policy that is not defined.
    """
    if isinstance(acl, Policy):
        if nfc(acl.name) not in policies:
            raise InputError(f"no policy is named {acl.name!r}")
        return read_rule(policies[nfc(acl.name)], {})
    if isinstance(acl, Public):
        return Rule(True, frozenset(), frozenset(), frozenset())
    parts = acl if isinstance(acl, ACL) else ACL(allow=acl)
    allow = [parts.allow] if isinstance(parts.allow, Public) else list(parts.allow)
    return Rule(
        everyone=any(isinstance(item, Public) for item in allow),
        allow=frozenset(nfc(item) for item in allow if isinstance(item, str)),
        require=frozenset(map(nfc, parts.require)),
        deny=frozenset(map(nfc, parts.deny)),
    )


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "null" if value is None else "string" if isinstance(value, str) else "container"


def _order(kind: str, value: Any) -> Any:
    # As numeric compares them: by the decimal digits that JSON shows, not by binary fractions.
    return Decimal(json.dumps(value)) if kind == "number" else value


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": lambda left, right: left == right,
    "ne": lambda left, right: left != right,
    "gt": lambda left, right: left > right,
    "gte": lambda left, right: left >= right,
    "lt": lambda left, right: left < right,
    "lte": lambda left, right: left <= right,
}


def _compares(operator: str, stored: object, wanted: object) -> bool:
    """Compare as SQL/JSON does: across types only with null, and then the two just differ."""
    kind, other = _kind(stored), _kind(wanted)
    if kind != other:
        return "null" in (kind, other) and operator == "ne"
    if kind == "container":
        return False
    if kind == "null":
        return operator in ("eq", "gte", "lte")
    return _OPERATORS[operator](_order(kind, stored), _order(other, wanted))


def _meets(stored: Sequence[object], wanted: object) -> bool:
    if isinstance(wanted, list | tuple | set | frozenset):
        values = cast("Sequence[object]", list(wanted))  # pyright: ignore[reportUnknownArgumentType]
        return any(_compares("eq", item, value) for item in stored for value in values)
    if isinstance(wanted, Mapping):
        pairs = cast("Mapping[str, object]", wanted)
        return all(any(_compares(operator, item, value) for item in stored) for operator, value in pairs.items())
    return any(_compares("eq", item, wanted) for item in stored)


def metadata_match(metadata: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Tell whether stored metadata meet a filter: every key, and of a stored list any one entry."""
    for key, value in (wanted or {}).items():
        name = nfc(key)
        found: object = metadata[name] if name in metadata else []
        stored = cast("list[object]", found) if isinstance(found, list) else [found]
        if not _meets(stored, value):
            return False
    return True
