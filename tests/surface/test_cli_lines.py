"""One line of JSON as a document: what is taken, and what is refused."""

from __future__ import annotations

import pytest

from context_engine import InputError
from context_engine.model import STORED
from context_engine.surfaces.cli.reading import read_line

DEFAULTS = ("s", ["group:default"])


def test_only_id_and_text_are_needed() -> None:
    document = read_line(b'{"id": "a", "text": "t"}', "s")
    assert (document.external_id, document.text, document.name) == ("a", "t", "")
    assert document.source == "s"
    assert document.acl is STORED


@pytest.mark.parametrize(
    ("acl", "reason"),
    [
        ('"group:hr"', "not a string"),
        ('""', "not a string"),
        ("null", "not null"),
        ("true", "not true or false"),
        ("7", "not a number"),
        ("{}", "must say who may read"),
        ('{"deny": ["a"]}', "must say who may read"),
        ('{"require": ["a"]}', "must say who may read"),
        ('{"allow": "group:hr"}', "not a string"),
        ('{"allow": null}', "not null"),
        ('{"allow": ["a"], "deny": "b"}', "not a string"),
        ('{"allow": ["a"], "denny": ["b"]}', 'has a key "denny"'),
        ('{"public": "yes"}', "must be true or false"),
        ('{"public": 1}', "must be true or false"),
        ('{"policy": null}', "must be a string"),
        ('{"policy": "p", "allow": ["a"]}', "stands alone"),
        ('["a"], "acl": {"public": true}', "twice"),
        ('{"allow": [], "allow": ["a"]}', "twice"),
    ],
)
def test_an_unclear_acl_is_refused(acl: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_line(b'{"id": "a", "text": "t", "acl": ' + acl.encode() + b"}", *DEFAULTS)


@pytest.mark.parametrize("key", ["ACL", "acls", "allow", "deny", "public", "Permissions", "policy"])
def test_a_misplaced_rule_does_not_fall_back_to_the_default(key: str) -> None:
    line = f'{{"id": "a", "text": "t", "{key}": ["group:hr"]}}'.encode()
    with pytest.raises(InputError, match='under the key "acl"'):
        read_line(line, *DEFAULTS)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"text": "t"}', '"id" must be a string, not missing'),
        (b'{"id": null, "text": "t"}', "not null"),
        (b'{"id": true, "text": "t"}', "not true or false"),
        (b'{"id": 1.5, "text": "t"}', "not a number"),
        (b'{"id": "a"}', '"text" must be a string, not missing'),
        (b'{"id": "a", "text": ["t"]}', "not a list"),
        (b'{"id": "a", "text": "t", "title": 5}', "not a number"),
        (b'{"id": "a", "text": "t", "source": null}', "not null"),
        (b'{"id": "a", "text": "t", "metadata": []}', "not a list"),
        (b'{"id": "a", "text": "t", "text": "u"}', "twice"),
        (b'{"id": ' + b"9" * 5000 + b', "text": "t"}', "not JSON"),
    ],
)
def test_other_lines_that_are_refused(line: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_line(line, *DEFAULTS)
