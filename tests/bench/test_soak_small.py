"""The soak runs end to end, and its checker sees what it is there to see."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT))

from benchmarks.soak import world  # noqa: E402
from benchmarks.soak.snapshot import Snapshots, hidden_hits, read_differences, search_differences  # noqa: E402

from context_engine import Document, Engine, document_id  # noqa: E402
from context_engine.db._sync.store import Transaction  # noqa: E402
from context_engine.retrieval.compose import Statement  # noqa: E402


@pytest.mark.timeout(400)
def test_all_at_once_for_some_seconds(server: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.soak", "--seconds", "6", "--load-seconds", "4", "--documents", "400"]
    done = subprocess.run(
        [*command, "--database-url", server.url(), "--out", str(tmp_path)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for run in ("checked", "load"):
        found = json.loads((tmp_path / f"{run}.json").read_text())
        assert len(found["processes"]) == 8 and not found["last_look"]
        assert sum(process["wrong_count"] for process in found["processes"]) == 0
        kinds = {kind for process in found["processes"] for kind in process["done"]}
        assert kinds >= {"search", "write"}
    page = (tmp_path / "results.md").read_text()
    for words in ("Each answer against the oracle", "Over a large corpus", "search:long, 10.0%", "| server |"):
        assert words in page


@pytest.fixture
def asked(database_url: str) -> Iterator[tuple[Engine, Snapshots]]:
    with Engine(database_url, embedder=world.EMBEDDER, settings=world.settings()) as engine:
        rng = random.Random(3)
        for name in world.POLICIES:
            engine.set_policy(name, world.policy_rule(rng))
        engine.ingest([world.document(rng, f"d{at}", "the test", world.acl(rng)) for at in range(60)])
        snapshots = Snapshots(database_url)
        yield engine, snapshots
        snapshots.close()


def wrong(engine: Engine, snapshots: Snapshots) -> int:
    rng, count = random.Random(5), 0
    for _ in range(15):
        question = world.question(rng)
        named = {"principals": question.principals, "top_k": question.top_k, "weights": question.weights}
        with snapshots.taken() as oracle:
            result = engine.search(question.query, **named, **question.filters)
            count += len(search_differences(engine, oracle, question, result))
            count += len(read_differences(engine, oracle, question))
    return count


def test_an_answer_is_held_against_the_snapshot_it_saw(asked: tuple[Engine, Snapshots], database_url: str) -> None:
    engine, snapshots = asked
    assert wrong(engine, snapshots) == 0
    with Engine(database_url, embedder=world.EMBEDDER, settings=world.settings()) as other:
        other.ingest([Document(text="a zeppelin", external_id="z", acl=["group:0"])])
        with snapshots.taken() as oracle:
            other.delete(document_id("default", "z"))
            other.ingest([Document(text="a zeppelin again", external_id="y", acl=["group:0"])])
            inside = engine.search("zeppelin", principals=["group:0"], weights={"ann": 0})
            assert [hit.document.external_id for hit in inside.hits] == ["z"]
            assert oracle.differences(inside, "zeppelin", principals=["group:0"], weights={"ann": 0}) == []
    after = engine.search("zeppelin", principals=["group:0"], weights={"ann": 0})
    assert [hit.document.external_id for hit in after.hits] == ["y"]


FAULTS: dict[str, Callable[[str], str]] = {
    "every class": lambda acls: "{" + ",".join(map(str, range(1, 80))) + "}",
    "one class too many": lambda acls: acls.replace("{", "{1,2,3,", 1) if acls != "{}" else "{1,2,3}",
    "no class": lambda acls: "{}",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_list_of_classes_is_seen(
    fault: str, asked: tuple[Engine, Snapshots], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Transaction.run

    def bent(self: Transaction, *statements: Statement) -> list[list[Any]]:
        for statement in statements:
            if statement.params.get("visible_acls") is not None:
                statement.params["visible_acls"] = FAULTS[fault](statement.params["visible_acls"])
        return run(self, *statements)

    monkeypatch.setattr(Transaction, "run", bent)
    engine, snapshots = asked
    assert wrong(engine, snapshots) > 0


def test_hidden_hits_are_counted_by_the_rule_in_plain_sql(asked: tuple[Engine, Snapshots]) -> None:
    engine, snapshots = asked
    seen = 0
    for principals in ([], ["group:1"], ["group:2", "group:3", "group:4"]):
        with snapshots.adopted() as connection:
            own = engine.search("otter budget report", principals=principals, top_k=100)
            assert hidden_hits(connection, own, principals) == 0
            wide = engine.search("otter budget report", principals=world.GROUPS, top_k=100)
            seen += hidden_hits(connection, wide, principals)
    assert seen > 0
