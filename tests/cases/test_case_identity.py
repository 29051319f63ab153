"""Cases about who a principal is: one rule, at every door."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from case_support import check_stored, doc, found, key, only
from typer.testing import CliRunner

from context_engine import ACL, PUBLIC, TRUSTED, Document, Engine, InputError, Policy
from context_engine.access import normalise_acl, normalise_principals
from context_engine.model import AclLike
from context_engine.models.hashing import HashingEmbedder
from context_engine.surfaces.cli.app import app
from context_engine.surfaces.cli.options import Session
from context_engine.surfaces.cli.reading import read_line

NewEngine = Callable[..., Engine]
COMPOSED, DECOMPOSED = "group:caf\u00e9", "group:cafe\u0301"

Door = Callable[[str, str, str], bool]


@pytest.fixture(params=["library", "set_acl", "policy", "ingest file", "command line"])
def door(request: pytest.FixtureRequest, new_engine: NewEngine, database_url: str, tmp_path: Path) -> Door:
    """Store a document through one of the doors, for one principal, and ask as another."""
    engine = new_engine(database_url)

    def cli(*arguments: str) -> Any:
        result = CliRunner().invoke(
            app, ["--database-url", database_url, *arguments], obj=Session(embedder=HashingEmbedder(32))
        )
        assert result.exit_code == 0, result.output
        return result

    def store(name: str, principal: str) -> None:
        if request.param == "library":
            assert not engine.ingest([doc(name, "an otter", [principal])]).failed
        elif request.param == "set_acl":
            engine.ingest([doc(name, "an otter", [])])
            engine.set_acl(key(name), [principal])
        elif request.param == "policy":
            engine.set_policy(name, [principal])
            engine.ingest([doc(name, "an otter", Policy(name))])
        elif request.param == "ingest file":
            line = {"id": name, "text": "an otter", "acl": {"allow": [principal]}}
            (tmp_path / "one.jsonl").write_text(json.dumps(line))
            cli("ingest", str(tmp_path / "one.jsonl"), "--source", "default")
        else:
            (tmp_path / name).with_suffix(".txt").write_text("an otter")
            cli("ingest", str(tmp_path / f"{name}.txt"), "--source", "default", "--acl", principal)

    def admits(name: str, principal: str, caller: str) -> bool:
        store(name, principal)
        answers = {
            bool(engine.search("otter", principals=[caller]).hits),
            bool(engine.count(principals=[caller]).chunks),
        }
        if request.param in ("ingest file", "command line"):
            hits = json.loads(cli("search", "otter", "--as", caller, "--json").stdout)["hits"]
            answers.add(bool(hits))
        [answer] = answers
        return answer

    return admits


@pytest.mark.parametrize(
    ("principal", "caller", "same"),
    [
        ("user:ada@x.org", "user:ada@x.org", True),
        ("ADA@X.org", "ada@x.org", False),
        ("ada@x.org", "ADA@X.org", False),
        (COMPOSED, DECOMPOSED, True),
        (DECOMPOSED, COMPOSED, True),
        ("group:\ufb01", "group:fi", False),
        ("group:hr", "group:hr ", False),
        ("group:hr", "hr", False),
        ("*", "anyone", False),
        ("PUBLIC", "anyone", False),
        ("a,b", "a", False),
    ],
)
def test_p30_a_principal_is_compared_exactly_in_nfc(principal: str, caller: str, same: bool, door: Door) -> None:
    """No folding of case, no trimming, no compatibility forms: only canonical equivalence."""
    assert unicodedata.normalize("NFC", DECOMPOSED) == COMPOSED
    assert door("one", principal, caller) is same


@pytest.mark.parametrize(
    ("acl", "caller", "admitted"),
    [
        (["A", "B"], ["B"], True),
        (["A"], ["A", "B", "C"], True),
        (ACL(["A"], deny=["B"]), ["A", "B"], False),
        (ACL(["A"], deny=["A"]), ["A"], False),
        (ACL(PUBLIC, deny=["A"]), [], True),
        (ACL(["A"], require=["R", "S"]), ["A", "R"], False),
        (ACL(["A"], require=["R", "S"]), ["A", "R", "S"], True),
        (ACL(["A"], require=["R"], deny=["R"]), ["A", "R"], False),
        (ACL([], require=["R"]), ["R"], False),
        (ACL(["A", "A"], require=["R", "R"], deny=["D", "D"]), ["A", "A", "R"], True),
    ],
)
@pytest.mark.parametrize("by_policy", [False, True])
def test_p30_deny_over_require_over_allow(
    acl: AclLike, caller: list[str], admitted: bool, by_policy: bool, engine: Engine
) -> None:
    if by_policy:
        engine.set_policy("p", acl)
    engine.ingest([doc("one", "an otter", Policy("p") if by_policy else acl)])
    for weights in (None, *map(only, ("fts", "trgm", "ann"))):
        assert bool(engine.search("otter", principals=caller, weights=weights).hits) is admitted
    assert engine.explain(key("one"), "otter", principals=caller).access.visible is admitted


def test_p30_groups_are_not_looked_up_so_no_cycle_can_be(engine: Engine) -> None:
    """A principal is opaque: A in B in C in A is the application's to resolve; a policy names no policy."""
    with pytest.raises(InputError, match="not by another policy"):
        engine.set_policy("a", Policy("b"))
    engine.set_policy("b", ["c"])
    engine.set_policy("c", ["b"])
    engine.ingest([doc("one", "an otter", Policy("b"))])
    assert not engine.search("otter", principals=["b"]).hits
    assert found(engine.search("otter", principals=["c"])) == ["one"]


def test_p30_three_thousand_readers_and_two_thousand_groups(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url)
    readers = [f"user:{number}" for number in range(3_000)]
    groups = [f"group:{number}" for number in range(2_000)]
    engine.set_policy("crowd", readers)
    documents = [doc(f"g{number}", "an otter", [f"group:{number}"]) for number in range(0, 2_000, 50)]
    engine.ingest([*documents, doc("all", "an otter", readers), doc("by policy", "an otter", Policy("crowd"))])
    engine.ingest(
        [doc("needy", "an otter", ACL(PUBLIC, require=groups)), doc("not", "an otter", ACL(PUBLIC, deny=groups))]
    )
    assert engine.count(principals=groups).documents == 41
    assert engine.count(principals=groups[:-1]).documents == 40
    assert set(found(engine.search("otter", principals=readers[-1:]))) == {"all", "by policy", "not"}
    assert engine.who_can(key("all")).acl == ACL(tuple(sorted(readers)))
    engine.set_policy("crowd", readers[:-1])
    assert set(found(engine.search("otter", principals=readers[-1:]))) == {"all", "not"}
    report = engine.verify(callers=[groups, readers, readers[-1:]], queries=["otter", "ottr"], probe=True)
    assert report.ok, report.callers
    check_stored(database_url)


ODD: list[tuple[Any, str]] = [
    (None, "None"),
    ("", "an empty string"),
    ("group:1", "a bare string"),
    (b"group:1", "bytes"),
    ([""], "an empty principal"),
    ([None], "a None in the list"),
    ([1], "a number in the list"),
    (["a\0b"], "U+0000"),
    (["\ud800"], "a lone surrogate"),
    (["x" * 1_001], "over 1,000 bytes"),
    ([f"p{number}" for number in range(20_001)], "over 20,000 principals"),
]


@pytest.mark.parametrize("odd", [value for value, _ in ODD], ids=[what for _, what in ODD])
def test_p29_one_rule_for_every_odd_value(odd: Any, engine: Engine) -> None:
    """As a caller, as an ACL, in `require` and `deny`, in a policy, and in a file: an error, and nothing is done."""
    engine.ingest([doc("one", "an otter", ["a"])])
    calls: list[Callable[[], Any]] = [
        lambda: engine.search("otter", principals=odd),
        lambda: engine.count(principals=odd),
        lambda: engine.list_documents(principals=odd),
        lambda: engine.get_document(key("one"), principals=odd),
        lambda: engine.neighbours(key("one"), 0, principals=odd),
        lambda: engine.explain(key("one"), "otter", principals=odd),
        lambda: engine.diff("otter", a=odd, b=TRUSTED),
        lambda: engine.verify(callers=[odd]),
        lambda: engine.set_acl(key("one"), odd),
        lambda: engine.set_acl(key("one"), ACL(["a"], require=odd)),
        lambda: engine.set_acl(key("one"), ACL(["a"], deny=odd)),
        lambda: engine.set_policy("p", odd),
        lambda: normalise_acl(ACL(allow=odd)),
    ]
    for call in calls:
        with pytest.raises(InputError):
            call()
    assert engine.ingest([doc("two", "an otter", odd)]).failed
    if odd is None or isinstance(odd, str):
        for rule in (odd, {"allow": odd}, {"allow": ["a"], "require": odd}, {"allow": ["a"], "deny": odd}):
            line = json.dumps({"id": "x", "text": "an otter", "acl": rule})
            with pytest.raises(InputError):
                read_line(line.encode(), "default")
    assert engine.get_acl(key("one")) == ACL(("a",)) and not engine.policies()
    assert engine.count(principals=TRUSTED).documents == 1


def test_p29_duplicates_count_once() -> None:
    assert normalise_principals(["b", "a", "b", DECOMPOSED, COMPOSED]) == ("a", "b", COMPOSED)
    once, twice = normalise_acl(["a"]), normalise_acl(["a", "a"])
    assert once == twice


def test_p29_the_command_line_lists_what_only_trusted_reads(new_engine: NewEngine, database_url: str) -> None:
    """A document for nobody is stored, hidden from all, and listed by whoever runs the database."""
    new_engine(database_url).ingest([Document(text="an otter", external_id="nobody's", acl=[])])
    session = Session(embedder=HashingEmbedder(32))
    for options, listed in (("--trusted", True), ("--anonymous", False)):
        result = CliRunner().invoke(app, ["--database-url", database_url, "documents", options], obj=session)
        assert ("nobody's" in result.output) is listed
