"""The schema: equal to the sum of its migrations, whole or not at all, and fit to be spread by document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql

from context_engine import (
    PUBLIC,
    TRUSTED,
    ContextEngineError,
    Document,
    Engine,
    SchemaOutOfDate,
    document_id,
)
from context_engine.db._sync import migrate as migrate_module
from context_engine.sql import load, migrations

NewDatabase = Callable[..., str]
NewEngine = Callable[..., Engine]
Migration = tuple[int, str, LiteralString]

DISTRIBUTED = {"document", "chunk", "embedding", "code", "untallied"}
WHOLE = {"acl", "acl_member", "audit", "lexicon", "setting", "migration", "tally", "word_tally", "centroid"}

CATALOGUE: dict[str, LiteralString] = {
    "relations": """
        SELECT relname, relkind::text, relpersistence::text, relreplident::text, relrowsecurity, relforcerowsecurity,
            reloptions::text
        FROM pg_class WHERE relnamespace = 'context_engine'::regnamespace""",
    "columns": """
        SELECT attrelid::regclass::text, attnum, attname, format_type(atttypid, atttypmod), attnotnull,
            attstorage::text, attcompression::text, attidentity::text, attgenerated::text, attstattarget,
            attcollation::regcollation::text, pg_get_expr(adbin, adrelid)
        FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = 'context_engine'::regnamespace AND attnum > 0 AND NOT attisdropped""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype::text, condeferrable, condeferred, convalidated,
            pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'context_engine'::regnamespace""",
    "indexes": """
        SELECT indrelid::regclass::text, indexrelid::regclass::text, indisunique, indisprimary, indisvalid,
            indimmediate, pg_get_indexdef(indexrelid), pg_get_expr(indpred, indrelid)
        FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
        WHERE relnamespace = 'context_engine'::regnamespace""",
    "triggers": """
        SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(pg_trigger.oid)
        FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relnamespace = 'context_engine'::regnamespace AND NOT tgisinternal""",
    "functions": """
        SELECT proname, pg_get_functiondef(oid) FROM pg_proc
        WHERE pronamespace = 'context_engine'::regnamespace""",
    "types": """
        SELECT typname, typtype::text FROM pg_type WHERE typnamespace = 'context_engine'::regnamespace""",
    "views": """
        SELECT viewname, definition FROM pg_views WHERE schemaname = 'context_engine'""",
    "policies": """
        SELECT tablename, policyname, qual, with_check FROM pg_policies WHERE schemaname = 'context_engine'""",
    "sequences": """
        SELECT sequencename, data_type::text, start_value, increment_by, cycle
        FROM pg_sequences WHERE schemaname = 'context_engine'""",
    "statistics": """
        SELECT stxname, pg_get_statisticsobjdef(oid)
        FROM pg_statistic_ext WHERE stxnamespace = 'context_engine'::regnamespace""",
    "comments": """
        SELECT objoid::regclass::text, objsubid, description FROM pg_description
        WHERE classoid = 'pg_class'::regclass
            AND objoid IN (SELECT oid FROM pg_class WHERE relnamespace = 'context_engine'::regnamespace)""",
    "privileges": """
        SELECT relname, relacl::text FROM pg_class
        WHERE relnamespace = 'context_engine'::regnamespace AND relacl IS NOT NULL""",
}


def catalogue(database_url: str) -> dict[str, list[tuple[Any, ...]]]:
    with psycopg.connect(database_url) as connection:
        return {what: sorted(connection.execute(query).fetchall(), key=repr) for what, query in CATALOGUE.items()}


def rows(database_url: str, query: LiteralString) -> list[tuple[Any, ...]]:
    with psycopg.connect(database_url) as connection:
        return connection.execute(query).fetchall()


def run_script(database_url: str, *scripts: LiteralString) -> None:
    parts = {"schema": "context_engine", "vector_schema": "public", "vector_type": "halfvec"}
    names = {part: sql.Identifier(name) for part, name in parts.items()}
    with psycopg.connect(database_url) as connection:
        for script in scripts:
            connection.execute(sql.SQL(script).format(**names))


def test_schema_sql_is_the_sum_of_the_migrations(new_engine: NewEngine, new_database: NewDatabase) -> None:
    migrated, whole, empty = (new_database(empty=True) for _ in range(3))
    engine = new_engine(migrated)
    names = [name for _, name, _ in migrations()]
    assert engine.migrate() == names
    assert engine.migrate() == []
    setup: tuple[LiteralString, ...] = (
        "CREATE EXTENSION vector; CREATE EXTENSION pg_trgm",
        load("admin/migration_table"),
    )
    run_script(whole, *setup, load("schema"))
    with psycopg.connect(migrated) as connection:  # the dimension comes with the first model
        connection.execute("ALTER TABLE context_engine.embedding ALTER COLUMN embedding TYPE public.halfvec")
        connection.execute("ALTER TABLE context_engine.embedding ALTER COLUMN embedding SET STORAGE PLAIN")
    one, other = catalogue(migrated), catalogue(whole)
    for what in CATALOGUE:
        assert one[what] == other[what], what
    assert len(one["columns"]) > 30 and len(one["constraints"]) > 8
    run_script(empty, *setup)
    assert catalogue(empty) != other


def test_migrations_are_numbered_without_gaps() -> None:
    assert [version for version, _, _ in migrations()] == list(range(1, len(migrations()) + 1))


def test_what_is_registered_survives_another_start(new_engine: NewEngine, new_database: NewDatabase) -> None:
    url = new_database(empty=True)
    new_engine(url).migrate()
    before = catalogue(url), rows(url, "SELECT name, value FROM context_engine.setting ORDER BY 1")
    engine = new_engine(url)
    engine.migrate()
    assert engine.count(principals=TRUSTED).documents == 0
    again = catalogue(url), rows(url, "SELECT name, value FROM context_engine.setting ORDER BY 1")
    assert again == before
    [stored] = rows(
        url,
        "SELECT format_type(atttypid, atttypmod), attstorage::text FROM pg_attribute"
        " WHERE attrelid = 'context_engine.embedding'::regclass AND attname = 'embedding'",
    )
    assert stored == ("halfvec(32)", "p")


BAD_SCRIPTS: dict[str, LiteralString] = {
    "at its end": "CREATE TABLE {schema}.half_made (id int); SELECT 1 / 0;",
    "in its syntax": "CREATE TABLE {schema}.half_made (id int); CREATE TABEL x ();",
    "by a deferred constraint": """
        CREATE TABLE {schema}.half_made (id int PRIMARY KEY, other int
            REFERENCES {schema}.half_made (id) DEFERRABLE INITIALLY DEFERRED);
        INSERT INTO {schema}.half_made VALUES (1, 2);""",
    "by the server": """
        CREATE TABLE {schema}.half_made (id int); SELECT pg_terminate_backend(pg_backend_pid());""",
}


def with_more(monkeypatch: pytest.MonkeyPatch, *scripts: LiteralString) -> None:
    """As if a later version of the package had these migrations too."""
    more: list[Migration] = [
        (len(migrations()) + at, f"{len(migrations()) + at:04d}_more", text) for at, text in enumerate(scripts, 1)
    ]
    known = (*migrations(), *more)
    monkeypatch.setattr(migrate_module, "migrations", lambda: known)


@pytest.mark.parametrize("how", BAD_SCRIPTS)
@pytest.mark.parametrize("state", ["empty", "filled"])
def test_an_interrupted_migration_rolls_back_whole(
    how: str,
    state: str,
    new_engine: NewEngine,
    new_database: NewDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = new_database(empty=True)
    if state == "filled":
        new_engine(url).ingest([Document(text="an otter", external_id="one", acl=PUBLIC)])
        before = catalogue(url)
    fine: LiteralString = "CREATE TABLE {schema}.fine (id int);"
    with monkeypatch.context() as later:
        with_more(later, fine, BAD_SCRIPTS[how])
        with pytest.raises(ContextEngineError):
            new_engine(url).migrate()
    if state == "empty":
        assert rows(url, "SELECT to_regnamespace('context_engine') IS NULL") == [(True,)]
    else:
        assert catalogue(url) == before
        assert len(rows(url, "SELECT FROM context_engine.migration")) == len(migrations())
    # And it can be done again.
    with monkeypatch.context() as later:
        with_more(later, fine)
        engine = new_engine(url)
        assert engine.migrate()[-1].endswith("_more")
        found = engine.search("otter", principals=[]).hits
        assert len(found) == (1 if state == "filled" else 0)


def calls(engine: Engine) -> list[Callable[[], Any]]:
    return [
        lambda: engine.search("otter", principals=TRUSTED),
        lambda: engine.ingest([Document(text="a heron", external_id="two", acl=PUBLIC)]),
        lambda: engine.count(principals=TRUSTED),
        lambda: engine.delete(document_id("default", "one")),
        lambda: engine.set_policy("p", PUBLIC),
    ]


def fill(database_url: str, new_engine: NewEngine) -> None:
    engine = new_engine(database_url)
    engine.ingest([Document(text="an otter", external_id="one", acl=PUBLIC)])
    engine.close()


@pytest.mark.parametrize("newest", [len(migrations()) + 1, 99, 10_000])
def test_a_newer_schema_is_out_of_date(newest: int, new_engine: NewEngine, database_url: str) -> None:
    fill(database_url, new_engine)
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO context_engine.migration (version, name) VALUES (%s, 'later')", (newest,))
    for call in calls(new_engine(database_url)):
        with pytest.raises(SchemaOutOfDate, match=f"{newest}.*upgrade"):
            call()
    assert rows(database_url, "SELECT count(*) FROM context_engine.document") == [(1,)]


def test_migrate_refuses_a_newer_schema(new_engine: NewEngine, database_url: str) -> None:
    fill(database_url, new_engine)
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO context_engine.migration (version, name) VALUES (99, 'x')")
    with pytest.raises(SchemaOutOfDate, match="99"):
        new_engine(database_url).migrate()


def test_an_older_schema_is_migrated_when_asked(
    new_engine: NewEngine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database_url, new_engine)
    with_more(monkeypatch, "CREATE TABLE {schema}.fine (id int);")
    for call in calls(new_engine(database_url)):
        with pytest.raises(SchemaOutOfDate, match="migrate"):
            call()
    engine = new_engine(database_url)
    assert len(engine.migrate()) == 1
    assert len(engine.search("otter", principals=[]).hits) == 1
    assert len(new_engine(database_url).search("otter", principals=[]).hits) == 1


def test_a_missing_table_is_our_error(new_engine: NewEngine, database_url: str) -> None:
    fill(database_url, new_engine)
    engine = new_engine(database_url)
    engine.count(principals=TRUSTED)
    with psycopg.connect(database_url) as connection:
        connection.execute("DROP SCHEMA context_engine CASCADE")
    for call in calls(engine):
        with pytest.raises(SchemaOutOfDate, match="migrate"):
            call()


def test_every_unique_key_of_a_distributed_table_has_the_document(database_url: str) -> None:
    keys = rows(
        database_url,
        """
        SELECT relname, indexrelid::regclass::text,
            (SELECT array_agg(attname::text) FROM pg_attribute
             WHERE attrelid = indrelid AND attnum = ANY (indkey::int2[]))
        FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
        WHERE relnamespace = 'context_engine'::regnamespace AND indisunique""",
    )
    tables = {table for table, _, _ in keys}
    assert tables >= DISTRIBUTED
    for table, name, columns in keys:
        if table in DISTRIBUTED:
            assert ("id" if table == "document" else "document_id") in columns, name


def test_every_table_is_either_spread_or_whole(database_url: str) -> None:
    tables = rows(
        database_url,
        "SELECT relname FROM pg_class WHERE relnamespace = 'context_engine'::regnamespace AND relkind IN ('r', 'p')",
    )
    assert {name for (name,) in tables} == DISTRIBUTED | WHOLE


def test_every_copy_of_an_acl_id_is_guarded(database_url: str) -> None:
    tables = rows(
        database_url,
        """
        SELECT relname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'context_engine'::regnamespace AND relkind = 'r' AND attname = 'acl_id'
            AND NOT attisdropped""",
    )
    copies = {name for (name,) in tables} - {"acl", "acl_member", "tally", "word_tally", "document"}
    assert copies == {"chunk", "embedding", "code"}
    guarded = rows(
        database_url,
        """
        SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'context_engine'::regnamespace AND contype = 'f' AND condeferrable AND condeferred
            AND confrelid = 'context_engine.document'::regclass""",
    )
    wanted = (
        "FOREIGN KEY (document_id, acl_id) REFERENCES context_engine.document(id, acl_id)"
        " ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED"
    )
    assert set(guarded) == {(f"context_engine.{name}", wanted) for name in copies}


LEFT_BEHIND: dict[str, LiteralString] = {
    "the document alone": "UPDATE context_engine.document SET acl_id = {other}",
    "the chunk alone": "UPDATE context_engine.chunk SET acl_id = {other}",
    "the embedding alone": "UPDATE context_engine.embedding SET acl_id = {other}",
    "all but the embedding": """
        UPDATE context_engine.document SET acl_id = {other}; UPDATE context_engine.chunk SET acl_id = {other}""",
    "all but the chunk": """
        UPDATE context_engine.document SET acl_id = {other}; UPDATE context_engine.embedding SET acl_id = {other}""",
    "one of two documents": """
        UPDATE context_engine.chunk SET acl_id = {other}; UPDATE context_engine.embedding SET acl_id = {other};
        UPDATE context_engine.document SET acl_id = {other} WHERE external_id = 'one'""",
    "a chunk without a document": """
        INSERT INTO context_engine.chunk
        SELECT id, document_id + 1, acl_id, position, content_hash, lexemes, terms, text
        FROM context_engine.chunk""",
    "an embedding of another ACL": """
        INSERT INTO context_engine.embedding SELECT chunk_id + 1, document_id, {other}, embedding
        FROM context_engine.embedding""",
}


@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_a_copy_left_behind_fails_the_commit(what: str, new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url)
    engine.ingest([Document(text="an otter", external_id="one", acl=["ada"])])
    engine.ingest([Document(text="a heron", external_id="two", acl=["bo"])])
    engine.delete(document_id("default", "two"))
    if "two documents" in what:
        engine.ingest([Document(text="a heron", external_id="two", acl=["ada"])])
    other = sql.SQL("(SELECT acl_id FROM context_engine.acl_member WHERE principal = 'bo')")
    with psycopg.connect(database_url) as connection:
        connection.execute(sql.SQL(LEFT_BEHIND[what]).format(other=other))
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.commit()
    assert not engine.search("otter heron", principals=["bo"]).hits
    assert engine.search("otter heron", principals=["ada"]).hits


def test_all_copies_together_pass(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url)
    engine.ingest([Document(text="an otter", external_id="one", acl=["ada"])])
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO context_engine.acl (digest, public) VALUES ('x', true) RETURNING id")
        for table in ("chunk", "document", "embedding"):
            connection.execute(
                sql.SQL(
                    "UPDATE context_engine.{} SET acl_id = (SELECT id FROM context_engine.acl WHERE public)"
                ).format(sql.Identifier(table))
            )
    assert len(engine.search("otter", principals=[], weights={"ann": 0}).hits) <= 1
