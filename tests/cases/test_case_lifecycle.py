"""Cases about what is stored: bytes no database can hold, the same again, and the shorter version."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from case_embedders import Same
from case_support import LEGS, TEXT_LEGS, check_stored, doc, dump, found, key, only

from context_engine import PUBLIC, TRUSTED, Count, Document, Engine, InputError
from context_engine.model import AclLike
from context_engine.text.clean import clean_text

NewEngine = Callable[..., Engine]
SIXTEEN = {"ingest": {"chunk_tokens": 16}}

BAD_TEXTS = {
    "lone high": "a\ud800b",
    "lone low": "a\udc00b",
    "reversed pair": "a\udc00\ud800b",
    "nul": "a\0b",
    "many": "\0\ud800" * 50,
    "at the ends": "\ud800ab\0",
}


@pytest.mark.parametrize("name", BAD_TEXTS)
@pytest.mark.parametrize("place", ["text", "name", "metadata value", "metadata key", "nested"])
def test_p24_bytes_no_database_holds(name: str, place: str, new_engine: NewEngine, database_url: str) -> None:
    bad = BAD_TEXTS[name]
    fields: dict[str, dict[str, Any]] = {
        "text": {"text": f"otter {bad} heron"},
        "name": {"text": "otter heron", "name": bad},
        "metadata value": {"text": "otter heron", "metadata": {"note": bad}},
        "metadata key": {"text": "otter heron", "metadata": {bad: "note"}},
        "nested": {"text": "otter heron", "metadata": {"a": [{"b": [bad]}], "c": "d"}},
    }
    engine = new_engine(database_url)
    documents = [doc(str(number), f"otter number {number}") for number in range(9)]
    documents.insert(4, Document(external_id="bad", acl=PUBLIC, **fields[place]))
    report = engine.ingest(documents)
    assert report.created == 10
    assert [item.external_id for item in report.warnings] == ["bad"]
    assert "U+FFFD" in report.warnings[0].warnings[0]
    check_stored(database_url, 256)
    for leg in TEXT_LEGS:
        assert found(engine.search("heron", principals=[], weights=only(leg))) == ["bad"]
    stored = engine.get_document(key("bad"), principals=[])
    shown = json.dumps([stored.text, stored.name, stored.metadata], ensure_ascii=False)
    assert "\ufffd" in shown
    shown.encode()
    assert engine.ingest(documents).unchanged == 10


def test_p24_a_surrogate_pair_loses_nothing(engine: Engine) -> None:
    report = engine.ingest([doc("pair", "otter \ud83e\udda6", name="\ud83e\udda6")])
    assert not report.warnings
    assert engine.get_document(key("pair"), principals=[]).text == "otter 🦦"


@pytest.mark.parametrize("bad", ["a\ud800b", "a\udc00", "a\0b", "\0"])
@pytest.mark.parametrize("place", ["external_id", "source", "acl", "name as id", "twice a key"])
def test_p24_in_an_identifier_it_is_an_error(bad: str, place: str, new_engine: NewEngine, database_url: str) -> None:
    wrong: dict[str, Document] = {
        "external_id": doc(bad, "otter"),
        "source": doc("bad", "otter", source=bad),
        "acl": doc("bad", "otter", acl=["ada", bad]),
        "name as id": Document(text="otter", name=bad, acl=PUBLIC),
        "twice a key": doc("bad", "otter", metadata={bad: 1, clean_text(bad)[0]: 2}),
    }
    engine = new_engine(database_url)
    documents = [doc(str(number), f"otter number {number}") for number in range(9)]
    documents.insert(4, wrong[place])
    report = engine.ingest(documents)
    assert [item.outcome for item in report.outcomes].count("created") == 9
    [failure] = report.failed
    assert failure is report.outcomes[4]
    assert failure.error
    str(failure).encode()  # can be shown and sent
    assert check_stored(database_url, 256).documents == 9


@pytest.mark.parametrize("bad", ["a\ud800b", "a\0b"])
def test_p24_at_the_other_doors(bad: str, engine: Engine) -> None:
    engine.ingest([doc("one", "an otter swims")])
    assert found(engine.search(f"{bad} otter", principals=[])) == ["one"]
    assert found(engine.search(f'"{bad}" -{bad} otter', principals=[], weights=only("fts"))) == []
    calls: list[Callable[[], Any]] = [
        lambda: engine.search("otter", principals=[bad]),
        lambda: engine.search("otter", principals=[], sources=[bad]),
        lambda: engine.search("otter", principals=[], metadata={bad: 1}),
        lambda: engine.search("otter", principals=[], metadata={"a": bad}),
        lambda: engine.set_acl(key("one"), [bad]),
        lambda: engine.set_policy(bad, PUBLIC),
        lambda: engine.set_policy("p", [bad]),
    ]
    for call in calls:
        with pytest.raises(InputError) as refusal:
            call()
        str(refusal.value).encode()


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "a text",
        {"text": "otter"},
        Document(text=None, external_id="bad", acl=PUBLIC),  # type: ignore[arg-type]
        Document(text=b"otter", external_id="bad", acl=PUBLIC),  # type: ignore[arg-type]
        Document(text="otter", external_id="", acl=PUBLIC),
        Document(text="otter", external_id=7, acl=PUBLIC),  # type: ignore[arg-type]
        Document(text="otter", acl=PUBLIC),
        Document(text="otter", external_id="bad", source="", acl=PUBLIC),
        Document(text="otter", external_id="bad", source=None, acl=PUBLIC),  # type: ignore[arg-type]
        Document(text="otter", external_id="bad", name=None, acl=PUBLIC),  # type: ignore[arg-type]
        Document(text="otter", external_id="bad", metadata=None, acl=PUBLIC),  # type: ignore[arg-type]
        Document(text="otter", external_id="bad", metadata={"a": {1, 2}}, acl=PUBLIC),
        Document(text="otter", external_id="bad", metadata={"a": float("nan")}, acl=PUBLIC),
        Document(text="otter", external_id="bad", metadata={1: 2}, acl=PUBLIC),  # type: ignore[dict-item]
        Document(text="otter", external_id="bad", name="n" * 2_001, acl=PUBLIC),
    ],
)
def test_p24_one_bad_document_of_ten(bad: Any, new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url)
    documents: list[Any] = [doc(str(number), f"otter number {number}") for number in range(9)]
    documents.insert(4, bad)
    report = engine.ingest(documents)
    assert [item.outcome for item in report.outcomes].count("created") == 9
    assert report.failed[0] is report.outcomes[4]
    assert check_stored(database_url, 256).documents == 9


def handbook(parts: int, word: str = "old") -> str:
    """A text that is cut into so many chunks of 16 tokens."""
    return "\n\n".join(f"Part {word}{number} of a book on otters and on herons." for number in range(parts))


NEW_PROCESS = """
import json, sys
from context_engine import Document, Engine, PUBLIC, TRUSTED
from context_engine.models.hashing import HashingEmbedder
with Engine(sys.argv[1], embedder=HashingEmbedder(32)) as engine:
    documents = [Document(text=text, external_id=name, acl=PUBLIC) for name, text in json.load(sys.stdin)]
    report = engine.ingest(documents)
    count = engine.count(principals=TRUSTED)
    outcomes = [item.outcome for item in report.outcomes]
    print(json.dumps([outcomes, sum(item.embedded for item in report.outcomes), count.documents, count.chunks]))
"""


def test_p44_twice_and_then_a_new_process(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url)
    texts = [(str(number), handbook(number + 1)) for number in range(5)]
    documents = [doc(name, text) for name, text in texts]
    assert engine.ingest(documents).created == 5
    before = dump(database_url)
    counted = engine.count(principals=TRUSTED)
    again = engine.ingest(documents)
    assert again.unchanged == 5
    assert sum(item.embedded for item in again.outcomes) == 0
    assert new_engine(database_url).ingest(iter(documents[::-1])).unchanged == 5
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_ENGINE_")}
    answer = subprocess.run(
        [sys.executable, "-c", NEW_PROCESS, database_url],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == [["unchanged"] * 5, 0, counted.documents, counted.chunks]
    assert dump(database_url) == before
    check_stored(database_url, 256)


def test_p44_twice_in_one_call(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, Same())
    one, two = doc("one", handbook(3)), doc("one", handbook(3, "new"))
    report = engine.ingest([one, one, two, two, one, doc("two", "a badger")])
    outcomes = [item.outcome for item in report.outcomes]
    assert outcomes == ["created", "unchanged", "updated", "unchanged", "updated", "created"]
    assert check_stored(database_url, 256).documents == 2


@pytest.mark.parametrize("other", ["Café", "Cafe\u0301"])
def test_p44_one_id_in_two_normal_forms(other: str, engine: Engine) -> None:
    engine.ingest([doc("Café", "an otter")])
    assert engine.ingest([doc(other, "an otter")]).unchanged == 1
    assert engine.count(principals=TRUSTED) == Count(1, 1)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", handbook(3, "new")),
        ("name", "Another"),
        ("metadata", {"a": 2}),
        ("acl", ["ada"]),
        ("acl", PUBLIC),
    ],
)
def test_p44_what_changed_is_written_once(field: str, value: Any, new_engine: NewEngine, database_url: str) -> None:
    embedder = Same()
    engine = new_engine(database_url, embedder, **SIXTEEN)
    given: dict[str, Any] = {"text": handbook(3), "external_id": "one", "acl": ["bo"]}
    engine.ingest([Document(**given)])
    embedder.embedded = 0
    for _ in range(2):
        report = engine.ingest([Document(**{**given, field: value})])
    assert report.unchanged == 1
    assert embedder.embedded == (3 if field in ("text", "name") else 0)
    assert engine.count(principals=TRUSTED) == Count(1, 3)
    check_stored(database_url, 16)


VERSIONS: dict[str, tuple[str, str]] = {
    "five to one": (handbook(5), "A new and only part that speaks of badgers."),
    "five to four": (handbook(5), handbook(4)),
    "five to five": (handbook(5), handbook(5, "new")),
    "one to five": ("A first and only part that speaks of badgers.", handbook(5, "new")),
    "the first left out": (handbook(5), "\n\n".join(handbook(5).split("\n\n")[1:])),
    "the middle changed": (handbook(5), handbook(5).replace("old2", "new2")),
    "turned round": (handbook(5), "\n\n".join(handbook(5).split("\n\n")[::-1])),
    "one part thrice": (handbook(5), "\n\n".join([handbook(1)] * 3)),
    "to a title": (handbook(5), ""),
    "a hundred to one": (handbook(100), "A new and only part that speaks of badgers."),
}


@pytest.mark.parametrize("acl", [None, PUBLIC])
@pytest.mark.parametrize("name", VERSIONS)
def test_p45_the_old_tail_goes(name: str, acl: AclLike | None, new_engine: NewEngine, database_url: str) -> None:
    old, new = VERSIONS[name]
    engine = new_engine(database_url, **SIXTEEN)
    engine.ingest([doc("one", old, ["ada"], name="Title"), doc("two", "a badger digs", ["ada"])])
    fields: dict[str, Any] = {} if acl is None else {"acl": acl}
    report = engine.ingest([Document(text=new, external_id="one", name="Title", **fields)])
    assert report.updated == 1

    parts = max(1, len([part for part in new.split("\n\n") if part]))
    assert report.outcomes[0].chunks == parts
    recount = check_stored(database_url, 16)
    assert (recount.chunks, recount.embeddings) == (parts + 1, parts + 1)
    assert engine.count(principals=["ada"]) == Count(2, parts + 1)
    gone = {word for word in re.findall(r"\w+\d|first", old) if word not in new}
    for word in sorted(gone)[:20]:
        for leg in LEGS:
            result = engine.search(f'"{word}"', principals=["ada"], weights=only(leg), top_k=1000)
            assert not any(word in hit.text for hit in result.hits)
            assert leg != "fts" or not result.hits
    everything = engine.search("otters", principals=["ada"], weights=only("ann"), top_k=1000)
    assert len(everything.hits) == parts + 1
    assert engine.get_document(key("one"), principals=["ada"]).text == new


def test_p45_what_moved_is_not_embedded_anew(new_engine: NewEngine, database_url: str) -> None:
    embedder = Same()
    engine = new_engine(database_url, embedder, **SIXTEEN)
    engine.ingest([doc("one", handbook(5))])
    for version, wanted in (("turned round", 2), ("the first left out", 2), ("five to four", 2)):
        embedder.embedded = 0
        report = engine.ingest([doc("one", VERSIONS[version][1])])
        assert report.updated == 1
        # Only the last part differs, by the blank line that others end with.
        assert embedder.embedded == report.outcomes[0].embedded <= wanted
        check_stored(database_url, 16)


def test_p45_a_deleted_document_is_gone(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, **SIXTEEN)
    engine.ingest([doc("one", handbook(5)), doc("two", "a badger digs")])
    assert engine.delete([key("one"), key("missing")]) == 1
    assert engine.delete(key("one")) == 0
    for leg in LEGS:
        result = engine.search("old3 otters old", principals=TRUSTED, weights=only(leg))
        assert set(found(result)) <= {"two"}
    assert check_stored(database_url, 16).documents == 1
    engine.ingest([doc("one", "an otter", ["ada"])])
    assert engine.count(principals=[]) == Count(1, 1)
    assert check_stored(database_url, 16).chunks == 2


REFUSING = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.text LIKE '%refused%' THEN RAISE EXCEPTION 'secret reason'; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON context_engine.chunk FOR EACH ROW EXECUTE FUNCTION public.refuse()
"""


@pytest.mark.parametrize("refused", [{0}, {4}, {9}, {0, 9}, {3, 4, 5}, set(range(10))])
def test_p24_a_document_that_the_database_refuses(refused: set[int], new_engine: NewEngine, database_url: str) -> None:
    """The others of the batch are stored, and what was embedded is not embedded again."""
    with psycopg.connect(database_url) as connection:
        connection.execute(REFUSING)
    embedder = Same()
    engine = new_engine(database_url, embedder)
    words = ["refused" if number in refused else "taken" for number in range(10)]
    report = engine.ingest(doc(str(number), f"{word} {number}") for number, word in enumerate(words))
    outcomes = ["failed" if number in refused else "created" for number in range(10)]
    assert [item.outcome for item in report.outcomes] == outcomes
    assert "secret" not in str(report)
    assert check_stored(database_url, 256).documents == 10 - len(refused)
    assert engine.count(principals=TRUSTED).documents == 10 - len(refused)
    assert embedder.embedded == 10


def test_p24_a_refused_change_leaves_the_old_version(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url)
    engine.ingest([doc("one", "an otter"), doc("two", "a heron")])
    with psycopg.connect(database_url) as connection:
        connection.execute(REFUSING)
    report = engine.ingest([doc("one", "refused", ["ada"]), doc("two", "a crane", ["ada"])])
    assert [item.outcome for item in report.outcomes] == ["failed", "updated"]
    assert engine.get_document(key("one"), principals=[]).text == "an otter"
    assert check_stored(database_url, 256).documents == 2
