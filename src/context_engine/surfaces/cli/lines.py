"""Read one line of JSON as a document. Strict where access is concerned: a line that is unclear is refused."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from context_engine import ACL, PUBLIC, Document, InputError, Policy
from context_engine.model import STORED, AclLike

ACL_KEYS: Final = frozenset({"allow", "require", "deny", "public", "policy"})
_GRANTS: Final = ("allow", "public", "policy")
# A misspelt or misplaced rule must not fall back to the command's own, which may be wider.
_MISPLACED: Final = ACL_KEYS | {"acls", "access", "principals", "permissions", "visibility"}


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the command says of every document.

    Attributes:
        acl: as `Document` takes it; `STORED` keeps the one that the database holds.
    """

    source: str
    acl: Any = STORED


def read_line(line: bytes, defaults: Defaults) -> Document:
    """Read a document.

    Raises:
        InputError: when the line is not a JSON object of the documented form.
    """
    fields = _parse(line)
    misplaced = [key for key in fields if key != "acl" and key.lower() in _MISPLACED | {"acl"}]
    if misplaced:
        raise InputError(f'who may read goes under the key "acl", not "{misplaced[0]}"')
    return Document(
        text=_string(fields, "text"),
        name=_string(fields, "title", ""),
        external_id=_id(fields),
        source=_string(fields, "source", defaults.source),
        acl=_acl(fields["acl"]) if "acl" in fields else defaults.acl,
        metadata=_metadata(fields.get("metadata", {})),
    )


def _parse(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode(), object_pairs_hook=_unique)
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
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InputError(f'the key "{twice}" is there twice')
    return found


def _string(fields: dict[str, Any], key: str, default: str | None = None) -> str:
    value = fields.get(key, default)
    if not isinstance(value, str):
        found = "missing" if value is None and key not in fields else type(value).__name__
        raise InputError(f'"{key}" must be a string, not {_name(found)}')
    return value


def _id(fields: dict[str, Any]) -> str:
    value = fields.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _string(fields, "id")


def _metadata(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f'"metadata" must be an object, not {_name(type(value).__name__)}')
    return cast(dict[str, Any], value)


def _acl(value: Any) -> AclLike:
    if isinstance(value, list):
        return cast(list[str], value)
    if not isinstance(value, dict):
        raise InputError(f'"acl" must be a list of principals or an object, not {_name(type(value).__name__)}')
    rule = cast(dict[str, Any], value)
    unknown = sorted(set(rule) - ACL_KEYS)
    if unknown:
        raise InputError(f'"acl" has a key "{unknown[0]}"; there are {", ".join(sorted(ACL_KEYS))}')
    if not any(key in rule for key in _GRANTS):
        raise InputError('"acl" must say who may read: "allow", "public" or "policy"')
    if "policy" in rule:
        return _policy(rule)
    public = rule.get("public", False)
    if not isinstance(public, bool):
        raise InputError('"public" must be true or false')
    lists = {key: _list(rule, key) for key in ("allow", "require", "deny")}
    return ACL([PUBLIC] * public + lists["allow"], lists["require"], lists["deny"])


def _policy(rule: dict[str, Any]) -> Policy:
    if len(rule) > 1:
        raise InputError("a policy stands alone: it has its own allow, require and deny")
    return Policy(_string(rule, "policy"))


def _list(rule: dict[str, Any], key: str) -> list[Any]:
    value = rule.get(key, [])
    if not isinstance(value, list):
        raise InputError(f'"{key}" must be a list of principals, not {_name(type(value).__name__)}')
    return cast(list[Any], value)


_JSON_NAMES: Final = {
    "NoneType": "null",
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "an object",
}


def _name(kind: str) -> str:
    return _JSON_NAMES.get(kind, kind)
