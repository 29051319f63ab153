"""Read one line of JSON as a document. Strict where access is concerned: a line that is unclear is refused."""

import json
from collections.abc import Sequence
from typing import Any, Final, cast

from context_engine import ACL, PUBLIC, Document, InputError, Policy
from context_engine.model import STORED

_ACL_KEYS: Final = frozenset({"allow", "require", "deny", "public", "policy"})
# A misspelt or misplaced rule must not fall back to the command's own, which may be wider.
_MISPLACED: Final = _ACL_KEYS | {"acl", "acls", "access", "principals", "permissions", "visibility"}
_NAMES: dict[type, str] = {
    type(None): "null",
    str: "a string",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def read_line(line: bytes, source: str, acl: Any = STORED) -> Document:
    """Read a document; source and ACL stand in where the line does not say.

    Raises:
        InputError: when the line is not a JSON object of the documented form.
    """
    fields = _parse(line)
    for key in fields:
        if key != "acl" and key.lower() in _MISPLACED:
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
    return _NAMES.get(type(value), "a number")


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
