"""What a hostile reading of the code found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from context_engine import ACL, PUBLIC, TRUSTED, ConfigError, Document, Engine, InputError, Settings, document_id
from context_engine.retrieval import legs
from context_engine.text.clean import clean_text

NewEngine = Callable[..., Engine]


def test_acl_ids_are_not_kept_from_a_database_that_is_gone(new_engine: NewEngine, database_url: str) -> None:
    engine, other = new_engine(database_url), new_engine(database_url)
    engine.ingest([Document(text="an otter", external_id="one", acl=["group:hr"])])
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA context_engine CASCADE")
    other.migrate()
    other.ingest([Document(text="a heron", external_id="two", acl=PUBLIC)])
    engine.ingest([Document(text="a secret otter", external_id="three", acl=["group:hr"])])
    assert not [hit for hit in engine.search("secret", principals=[]).hits if "secret" in hit.text]
    assert engine.get_acl(document_id("default", "three")) == ACL(allow=("group:hr",))


def test_a_failing_lexicon_leaves_the_other_legs(
    new_engine: NewEngine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(legs, "FEW_CHUNKS", 0)
    engine = new_engine(database_url)
    engine.ingest([Document(text="python report", external_id="one", acl=PUBLIC)])
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE context_engine.lexicon RENAME COLUMN word TO broken")
    result = engine.search("pyhton report", principals=[])
    assert result.report.degraded
    assert result.report.legs["trgm"].error
    assert [hit.document.external_id for hit in result.hits] == ["one"]


def test_long_runs_of_marks_take_linear_work() -> None:
    marks = "\u0301\u0316" * 20_000
    cleaned, _ = clean_text("o" + marks)
    assert max(map(len, cleaned.split("\u034f"))) <= 66
    assert clean_text(cleaned)[0] == cleaned


def test_a_long_filter_value_is_refused(engine: Engine) -> None:
    with pytest.raises(InputError, match="characters"):
        engine.count(principals=TRUSTED, metadata={"k": "\u0301\u0316" * 50_000})


def test_a_broken_settings_file_is_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "context-engine.toml"
    path.write_text("[storage\n")
    monkeypatch.setenv("CONTEXT_ENGINE_CONFIG", str(path))
    with pytest.raises(ConfigError, match=r"context-engine\.toml is not TOML: .*line 1"):
        Settings()
    monkeypatch.setenv("CONTEXT_ENGINE_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(ConfigError, match="not a file"):
        Settings()


def test_weights_of_two_words_in_one_dimension_do_not_hang_on_their_order(new_engine: NewEngine) -> None:
    engine = new_engine(search={"candidates": 2})
    words = ("w12608", "w28540")  # one dimension
    engine.ingest(
        Document(text=text, external_id=str(number), acl=PUBLIC)
        for number, text in enumerate([f"{words[0]} x", f"{words[1]} y", "z", json.dumps("u"), words[0]])
    )
    asked = {"principals": [], "weights": {"ann": 0.0, "trgm": 0.0}}
    one = engine.search(" ".join(words), **asked)
    other = engine.search(" ".join(reversed(words)), **asked)
    assert [(hit.chunk_id, hit.score) for hit in one.hits] == [(hit.chunk_id, hit.score) for hit in other.hits]
