"""pgvector below 0.8: no iterative scans; measured all the same, and told."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import psycopg
import pytest
from exposure_world import DIM, caller, literal, make_world, run
from old_server import is_there, old_server

from context_engine import Settings
from context_engine.db.exposure.measure import Request, measure

pytestmark = pytest.mark.skipif(not is_there(), reason="the wheel pgserver is not for this Python or system")
K = 5


@pytest.fixture(scope="module")
def old_url() -> Iterator[str]:
    world = make_world(2_000)
    with old_server() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute(f"CREATE TABLE docs (embedding vector({DIM}), acl text[])".encode())
            with connection.cursor().copy("COPY docs FROM STDIN") as copy:
                for vector, groups in zip(world.vectors, world.groups, strict=True):
                    copy.write_row((literal(vector), groups))
            connection.execute("CREATE INDEX vec ON docs USING hnsw (embedding vector_cosine_ops)")
            connection.execute("ANALYZE docs")
        yield url


def test_it_is_measured_and_told_what_it_lacks(old_url: str) -> None:
    report = run(old_url, top_k=K)
    assert report.environment.pgvector == "0.6.2" and not report.environment.iterative
    assert report.environment.ef_search == 40
    assert "iterative" not in report.methods
    assert any("0.6.2 has no iterative index scans" in note for note in report.notes)
    tight = caller(report, "tight")
    assert tight.figures["others"]["forced"].recall < 1
    assert tight.figures["others"]["routed"].recall == 1


def test_above_the_threshold_the_walk_is_completed_exactly(old_url: str) -> None:
    settings = Settings(storage={"ann_exact_threshold": 10})
    report = measure(old_url, Request(top_k=K, show_acl=True, callers=(("tight",),)), settings)
    found = caller(report, "tight")
    assert not found.routed_exact
    assert np.isclose(found.figures["others"]["routed"].recall, 1)
