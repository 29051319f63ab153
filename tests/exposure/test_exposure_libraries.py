"""Tables that LangChain and LlamaIndex made through their own API, found without options and measured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from exposure_world import DIM, World, caller, expect_after, literal, make_world, run, same
from langchain_core.embeddings import Embeddings
from langchain_postgres import Column, PGEngine, PGVector
from langchain_postgres import PGVectorStore as NewerStore
from langchain_postgres.v2.indexes import HNSWIndex
from llama_index.core.schema import TextNode
from llama_index.vector_stores.postgres import PGVectorStore
from numpy.typing import NDArray
from psycopg.conninfo import conninfo_to_dict

from context_engine import InputError
from context_engine.exposure.target import Wanted

K = 5
NewDatabase = Callable[..., str]


class Stored(Embeddings):
    """Gives a text's vector by its number: `row 17`."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self._vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._vectors[int(text.split()[1])].tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def sqlalchemy_url(url: str, driver: str) -> str:
    parts = conninfo_to_dict(url)
    return f"postgresql+{driver}://{parts['user']}@/{parts['dbname']}?host={parts['host']}&port={parts['port']}"


@pytest.fixture
def langchain(new_database: NewDatabase, world: World) -> Iterator[tuple[str, PGVector]]:
    url = new_database(empty=True)
    store = fill_langchain(url, world)
    yield url, store
    store._engine.dispose()  # noqa: SLF001 (it has no close of its own)


def fill_langchain(url: str, world: World, collection: str = "handbook") -> PGVector:
    connection = sqlalchemy_url(url, "psycopg")
    store = PGVector(Stored(world.vectors), connection=connection, collection_name=collection)
    # A tenant of one value, and a list of groups: the two ways that permissions stand in metadata.
    store.add_texts(
        [f"row {row} SECRET" for row in range(len(world.vectors))],
        metadatas=[
            {"source": f"s{row}", "tenant_id": f"t{row % 3}", "allowed_groups": groups}
            for row, groups in enumerate(world.groups)
        ],
        ids=[f"{collection}-{row}" for row in range(len(world.vectors))],
    )
    return store


def every_question(world: World, visible: NDArray[np.bool_]) -> dict[str, list[tuple[NDArray[np.float32], int | None]]]:
    return {
        "own": [(world.vectors[row], int(row)) for row in np.flatnonzero(visible)],
        "others": [(world.vectors[row], int(row)) for row in np.flatnonzero(~visible)],
    }


def check(world: World, report: Any, value: str) -> None:
    found = caller(report, value)
    for kind, questions in every_question(world, world.visible(value)).items():
        for fetch in (1, 10):
            expected = expect_after(world, (value,), questions, K, fetch * K)
            assert same(found.figures[kind][f"after-{fetch}x"], expected), (kind, fetch)
        assert found.figures[kind]["planned"].recall == 1


def test_langchain_without_options(langchain: tuple[str, PGVector], world: World) -> None:
    url, _ = langchain
    report = run(url, top_k=K, samples=1_000, max_scopes=1)
    target = report.target
    assert (target.preset, target.table.title) == ("langchain", "public.langchain_pg_embedding")
    assert (target.acl.title, target.acl.kind) == ("cmetadata.allowed_groups", "json_array")
    assert target.base and target.operator == "<=>" and target.dim == DIM
    assert any("tenant_id" in note for note in report.notes)
    assert report.acl_values == 4
    check(world, report, "half")


def test_langchain_as_the_library_answers(langchain: tuple[str, PGVector], world: World) -> None:
    """Filtering after the library's own search gives the same as the report says."""
    url, store = langchain
    report = run(url, top_k=K, samples=1_000, wanted=Wanted(acl_column="cmetadata.tenant_id"), callers=(("t1",),))
    found = caller(report, "t1")
    assert report.target.acl.kind == "json_scalar"
    short = recall = 0.0
    others = [row for row in range(len(world.vectors)) if row % 3 != 1]
    for row in others:
        vector = world.vectors[row].tolist()
        fetched = store.similarity_search_by_vector(vector, k=2 * K)[1:]
        kept = [each for each in fetched if each.metadata["tenant_id"] == "t1"]
        wanted = store.similarity_search_by_vector(vector, k=K, filter={"tenant_id": {"$in": ["t1"]}})
        ids = {each.metadata["source"] for each in wanted}
        recall += len(ids & {each.metadata["source"] for each in fetched[:K]}) / K
        short += len([each for each in fetched[:K] if each in kept]) < K
    figures = found.figures["others"]["after-1x"]
    assert figures.recall == pytest.approx(recall / len(others))
    assert figures.short == pytest.approx(short / len(others))


def test_langchain_collections(langchain: tuple[str, PGVector], world: World) -> None:
    url, _ = langchain
    small = make_world(40, seed=9)
    store = fill_langchain(url, small, collection="minutes")
    report = run(url, top_k=K, samples=3)
    assert report.vectors == len(world.vectors)
    assert any("largest was taken, handbook" in note for note in report.notes)
    report = run(url, top_k=K, samples=1_000, max_scopes=1, wanted=Wanted(collection="minutes"))
    assert report.vectors == 40
    check(small, report, "half")
    with pytest.raises(InputError, match="no collection 'x'"):
        run(url, wanted=Wanted(collection="x"))
    store._engine.dispose()  # noqa: SLF001


def test_langchains_newer_store(new_database: NewDatabase, world: World) -> None:
    """It keeps chosen metadata in columns of their own, and the rest in a JSON column."""
    url = new_database(empty=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    engine = PGEngine.from_connection_string(sqlalchemy_url(url, "psycopg"))
    engine.init_vectorstore_table("Notes", DIM, metadata_columns=[Column("tenant", "TEXT")])
    store = NewerStore.create_sync(engine, Stored(world.vectors), "Notes", metadata_columns=["tenant"])
    texts = [f"row {row} SECRET" for row in range(len(world.vectors))]
    store.add_texts(texts, [{"tenant": owner(world, row), "n": row} for row in range(len(texts))])
    store.apply_vector_index(HNSWIndex(name="walk"))
    report = run(url, top_k=K, samples=1_000, max_scopes=1)
    target = report.target
    assert (target.preset, target.table.title, target.acl.title) == ("langchain-v2", "public.Notes", "tenant")
    assert target.index and target.index.name == "walk"
    owned = World(world.vectors, [[owner(world, row)] for row in range(len(world.vectors))])
    assert caller(report, "half").visible == owned.visible("half").sum()
    assert caller(report, "half").figures["others"]["routed"].recall == 1
    asyncio.run_coroutine_threadsafe(engine._pool.dispose(), engine._loop).result()  # noqa: SLF001


def fill_llamaindex(url: str, world: World, **options: Any) -> None:
    parts = {"connection_string": sqlalchemy_url(url, "psycopg2")}
    parts["async_connection_string"] = sqlalchemy_url(url, "asyncpg")
    store = PGVectorStore.from_params(**parts, table_name="Handbook", embed_dim=DIM, **options)
    nodes = [
        TextNode(text=f"SECRET {row}", id_=f"n{row}", embedding=vector.tolist(), metadata={"owner": owner(world, row)})
        for row, vector in enumerate(world.vectors)
    ]
    if options.get("indexed_metadata_keys"):
        for row, node in enumerate(nodes):
            node.metadata = {"groups": world.groups[row]}
    store.add(nodes)
    store._engine.dispose()  # noqa: SLF001


def owner(world: World, row: int) -> str:
    return (world.groups[row] or ["nobody"])[0]


def test_llamaindex_without_options(new_database: NewDatabase, world: World) -> None:
    url = new_database(empty=True)
    fill_llamaindex(url, world)
    report = run(url, top_k=K, samples=1_000, max_scopes=1)
    target = report.target
    assert (target.preset, target.table.title) == ("llamaindex", "public.data_handbook")
    assert (target.acl.title, target.acl.kind, target.operator) == ("metadata_.owner", "json_scalar", "<=>")
    owned = World(world.vectors, [[owner(world, row)] for row in range(len(world.vectors))])
    check(owned, report, "half")


def test_llamaindex_with_its_indexes(new_database: NewDatabase) -> None:
    url = new_database(empty=True)
    world = make_world(1_500)
    hnsw = {"hnsw_m": 16, "hnsw_ef_construction": 64, "hnsw_ef_search": 40, "hnsw_dist_method": "vector_cosine_ops"}
    fill_llamaindex(url, world, use_jsonb=True, hnsw_kwargs=hnsw, indexed_metadata_keys={("groups", "text[]")})
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE data_handbook")
    report = run(url, top_k=K, samples=10)
    assert (report.target.acl.title, report.target.acl.kind) == ("metadata_.groups", "json_array")
    assert report.target.index and report.target.index.method == "hnsw"
    assert report.filter_index == "handbook_idx_groups_gin"
    assert caller(report, "tight").figures["others"]["forced"].recall < 1
    assert all(each.figures["own"]["routed"].recall == 1 for each in report.callers if "own" in each.figures)


def test_a_table_in_haystacks_form(new_database: NewDatabase, world: World) -> None:
    url = new_database(empty=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute(
            "CREATE TABLE haystack_documents (id varchar(128) PRIMARY KEY, embedding vector(8), content text, "
            "blob_data bytea, blob_meta jsonb, blob_mime_type varchar(255), meta jsonb)"
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO haystack_documents (id, embedding, meta) "
                "VALUES (%s, %s, jsonb_build_object('team', %s::text[]))",
                [(str(row), literal(world.vectors[row]), groups) for row, groups in enumerate(world.groups)],
            )
    report = run(url, top_k=K, samples=1_000, max_scopes=1)
    assert (report.target.preset, report.target.acl.title) == ("haystack", "meta.team")
    check(world, report, "half")


def test_two_libraries_in_one_database(langchain: tuple[str, PGVector], world: World) -> None:
    url, _ = langchain
    fill_llamaindex(url, world)
    with pytest.raises(InputError, match=r"choose with --table, of .*langchain_pg_embedding.*data_handbook"):
        run(url)
    report = run(url, samples=1, wanted=Wanted(table="data_handbook"))
    assert report.target.preset == "llamaindex"
