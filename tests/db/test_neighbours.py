"""Chunks around a place in a document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from context_engine import TRUSTED, Chunk, Document, Engine, InputError, NotFound, document_id

ONE = document_id("default", "one")


@pytest.fixture
def engine(new_engine: Callable[..., Engine]) -> Engine:
    """Two documents of many chunks; the second is nobody's."""
    made = new_engine(ingest={"chunk_tokens": 16})
    texts = {name: " ".join(f"{name}{number}" for number in range(60)) for name in ("one", "two")}
    made.ingest(Document(text=text, external_id=name, acl=["a"] * (name == "one")) for name, text in texts.items())
    return made


def test_the_window_is_cut_at_both_ends(engine: Engine) -> None:
    chunks = engine.get_document(ONE, principals=["a"]).chunks
    assert len(chunks) > 4

    def around(position: int, **reach: int) -> list[tuple[int, str]]:
        found = engine.neighbours(ONE, position, principals=["a"], **reach)
        assert all(isinstance(chunk, Chunk) for chunk in found)
        return [(chunk.position, chunk.text) for chunk in found]

    numbered = list(enumerate(chunks))
    assert around(2) == numbered[1:4]
    assert around(0, before=5, after=0) == numbered[:1]
    assert around(1, before=1000, after=1000) == numbered
    assert around(len(chunks) + 5) == []
    assert around((1 << 31) - 1, after=1000) == []


def test_not_found_and_not_yours_are_one_answer(engine: Engine) -> None:
    answers: set[Any] = set()
    for key, caller in ((ONE, []), (ONE, ["b"]), (document_id("default", "two"), ["a"]), (7, ["a"]), (7, TRUSTED)):
        with pytest.raises(NotFound) as caught:
            engine.neighbours(key, 0, principals=caller)
        answers.add((str(caught.value), caught.value.args, caught.value.__cause__))
    assert len(answers) == 1


@pytest.mark.parametrize(
    "arguments", [{"position": -1}, {"position": True}, {"position": 1 << 31}, {"before": -1}, {"after": 1001}]
)
def test_what_is_no_place_is_refused(arguments: dict[str, Any], engine: Engine) -> None:
    with pytest.raises(InputError, match="must be a whole number"):
        engine.neighbours(ONE, **{"position": 0, **arguments}, principals=["a"])
