"""Change who may read 100,000 chunks, by their policy and by re-tagging; and what time tells of hidden documents.

`python -m benchmarks.policy`; with `--resume` on what an earlier run has loaded. Needs no data: the texts are made up,
with words as unevenly spread as in language, and the vectors are random.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, LiteralString

import numpy as np
import psycopg
from rich.progress import Progress

from context_engine import ACL, TRUSTED, Document, Engine, Policy, Settings, document_id
from context_engine.db.embedded import EmbeddedServer

_RESULTS: Final = Path(__file__).parent / "results"
_POLICY: Final = "everyone's"
_FEW: Final = 88
_HIDDEN_WORD: Final = "w1"  # the commonest: in most of the hidden documents
_SEEN_WORD: Final = "meadow"
_NONSENSE: Final = "qzxqvj"
_ROWS: LiteralString = """
    SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE schemaname = 'context_engine'"""


class RandomVectors:
    """Gives each text a vector of its own: what it says does not matter here."""

    name = "random-384"
    dim = 384

    def embed_documents(self, texts: Sequence[str]) -> Any:
        seed = np.frombuffer("".join(text[:40] for text in texts).encode()[:64], dtype=np.uint8)
        return np.random.default_rng(seed).standard_normal((len(texts), self.dim), dtype=np.float32)

    def embed_query(self, text: str) -> Any:
        return self.embed_documents([text])[0]


def documents(count: int) -> Iterator[Document]:
    """Yield one-chunk documents of about 60 words, all but a few under one policy."""
    random = np.random.default_rng(0)
    for number in range(count):
        words = [f"w{rank}" for rank in np.minimum(random.zipf(1.3, 60), 50_000)]
        yield Document(text=" ".join(words), external_id=str(number), acl=Policy(_POLICY))
    for number in range(_FEW):
        text = f"the {_SEEN_WORD} of document {number} and some plain words"
        yield Document(text=text, external_id=f"few {number}", acl=["group:few"])


def load(engine: Engine, count: int) -> float:
    """Fill the database, if it is not; returns the seconds it took."""
    if engine.count(principals=TRUSTED).documents == count + _FEW:
        return 0.0
    started = time.perf_counter()
    engine.set_policy(_POLICY, ["group:a"])
    with Progress(transient=True) as progress:
        task = progress.add_task("loading", total=count + _FEW)
        report = engine.ingest(documents(count), progress=lambda done, _: progress.update(task, completed=done))
    assert not report.failed
    return time.perf_counter() - started


class Meter:
    """Measures a write: seconds, rows, and bytes of write-ahead log."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def _one(self, query: LiteralString) -> int:
        row = self._connection.execute(query).fetchone()
        assert row
        return int(row[0])

    def _state(self) -> tuple[int, int]:
        self._connection.execute("SELECT pg_stat_force_next_flush()")
        return self._one("SELECT pg_current_wal_insert_lsn() - '0/0'"), self._one(_ROWS)

    def measure(self, write: Callable[[], object]) -> dict[str, float]:
        log, _ = self._state()
        started = time.perf_counter()
        write()
        seconds = time.perf_counter() - started
        after, _ = self._state()
        return {"ms": seconds * 1000, "wal_bytes": after - log}

    def rows(self, write: Callable[[], object], engine: Engine) -> int:
        """Count the rows that a write touches; the engine is closed, so that its server process reports them."""
        _, before = self._state()
        write()
        engine.close()
        for _ in range(100):  # the process reports as it ends
            self._connection.execute("SELECT pg_stat_clear_snapshot()")
            touched = self._one(_ROWS) - before
            if touched:
                return touched
            self._connection.execute("SELECT pg_sleep(0.05)")
        raise SystemExit("the server reports no rows written")


def measure_policy(make: Callable[[], Engine], url: str, count: int, runs: int) -> dict[str, Any]:
    """Give the documents to another group and back, by the policy; then by tagging each of them."""
    meter, engine = Meter(url), make()
    ids = [document_id("default", str(number)) for number in range(count)]
    changes: list[dict[str, float]] = []
    searches: list[float] = []
    for run in range(runs):
        group = ["group:b", "group:a"][run % 2]
        changes.append(meter.measure(lambda group=group: engine.set_policy(_POLICY, [group])))
        started = time.perf_counter()
        result = engine.search(f"{_HIDDEN_WORD} w7", principals=[group])
        searches.append((time.perf_counter() - started) * 1000)
        assert result.report.visible_chunks == count, "the change is in force in the next search"
        other = ["group:a", "group:b"][run % 2]
        assert engine.search(_HIDDEN_WORD, principals=[other]).report.visible_chunks == 0
    retagged = meter.measure(lambda: engine.set_acl(ids, ACL(["group:a"])))
    assert engine.count(principals=["group:a"]).chunks == count
    back = meter.measure(lambda: engine.set_acl(ids, Policy(_POLICY)))
    touched = meter.rows(lambda: engine.set_policy(_POLICY, ["group:a", "group:c"]), engine)
    engine = make()
    engine.set_policy(_POLICY, ["group:a"])
    tagged = meter.rows(lambda: engine.set_acl(ids, ACL(["group:a"])), engine)
    engine = make()
    engine.set_acl(ids, Policy(_POLICY))
    engine.close()
    return {
        "chunks": count,
        "policy_ms": statistics.median(change["ms"] for change in changes),
        "policy_ms_most": max(change["ms"] for change in changes),
        "policy_wal_bytes": statistics.median(change["wal_bytes"] for change in changes),
        "policy_rows": touched,
        "next_search_ms": statistics.median(searches),
        "runs": runs,
        "retag_ms": [retagged["ms"], back["ms"]],
        "retag_wal_bytes": [retagged["wal_bytes"], back["wal_bytes"]],
        "retag_rows": tagged,
    }


def measure_timing(engine: Engine, runs: int) -> list[dict[str, Any]]:
    """Time each leg for a caller of few documents: a word of hidden documents beside one that nobody has."""
    rows: list[dict[str, Any]] = []
    legs: tuple[Any, ...] = ("fts", "trgm", "ann")
    for leg in (*legs, "fused"):
        weights = None if leg == "fused" else {name: float(name == leg) for name in legs}
        row: dict[str, Any] = {"leg": leg}
        for what, word in (("seen", _SEEN_WORD), ("hidden", _HIDDEN_WORD), ("nonsense", _NONSENSE)):
            times: list[float] = []
            for _ in range(runs):
                result = engine.search(word, principals=["group:few"], weights=weights)
                times.append(result.report.timings_ms["total"])
            row[f"{what}_ms"] = statistics.median(times[runs // 5 :])
        rows.append(row)
    return rows


def measure_verify(engine: Engine) -> list[dict[str, Any]]:
    """Time `verify` for a caller of few documents, and for one of all, whose documents are too many to copy."""
    rows: list[dict[str, Any]] = []
    for caller in (["group:few"], ["group:a"]):
        started = time.perf_counter()
        report = engine.verify(callers=[caller], queries=10, probe=True)
        [check] = report.callers
        seconds = time.perf_counter() - started
        answers = check.answers + (check.probed or 0)
        rows.append({"chunks": check.chunks, "against": check.against, "answers": answers, "s": seconds})
        rows[-1]["differences"] = len(check.differences)
    return rows


def write(results: dict[str, Any], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    policy, retag = results["policy"], results["policy"]["retag_ms"]
    lines = [
        f"{policy['chunks']:,} chunks, {results['machine']}, PostgreSQL {results['postgresql']}, embedded.",
        "",
        "| change who may read all of them | time | rows written | write-ahead log |",
        "|---|---|---|---|",
        f"| by their policy | {policy['policy_ms']:.1f} ms | {policy['policy_rows']:,} |"
        f" {policy['policy_wal_bytes']:,.0f} B |",
        f"| by tagging each | {min(retag) / 1000:.1f} to {max(retag) / 1000:.1f} s | {policy['retag_rows']:,} |"
        f" {max(policy['retag_wal_bytes']) / 2**20:,.0f} MiB |",
        "",
        f"Median of {policy['runs']} changes; each was in force in the next search,"
        f" which took {policy['next_search_ms']:.1f} ms.",
        "",
        f"A caller who sees {_FEW} of them asks for one word, median in ms:",
        "",
        "| leg | a word of theirs | the commonest hidden word | a word that nobody has |",
        "|---|---|---|---|",
        *(
            f"| {row['leg']} | {row['seen_ms']:.2f} | {row['hidden_ms']:.2f} | {row['nonsense_ms']:.2f} |"
            for row in results["timing"]
        ),
        "",
        "`verify --probe`, one caller, 10 questions:",
        "",
        "| chunks of the caller | held against | answers compared | differences | seconds |",
        "|---|---|---|---|---|",
        *(
            f"| {row['chunks']:,} | {row['against']} | {row['answers']:,} | {row['differences']} | {row['s']:.1f} |"
            for row in results["verify"]
        ),
    ]
    (out / "results.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policy", description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--database-url", help="an empty database; the embedded server when left out")
    parser.add_argument("--resume", action="store_true", help="use what is loaded already")
    parser.add_argument("--keep", action="store_true", help="keep the embedded server's data at the end")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    args = parser.parse_args()
    folder = Path(tempfile.gettempdir()) / "context-engine-policy"
    if not args.resume:
        shutil.rmtree(folder, ignore_errors=True)
    if args.database_url:
        _run(args, args.database_url)
        return
    with EmbeddedServer.start(folder) as server:
        _run(args, server.url())
    if not args.keep:
        shutil.rmtree(folder, ignore_errors=True)


def _run(args: argparse.Namespace, url: str) -> None:
    # Wide callers are measured exact: the vector index is of no interest here.
    settings = Settings(storage={"ann_exact_threshold": 10_000_000, "statement_timeout_s": 600, "pool_size": 1})

    def make() -> Engine:
        return Engine(url, embedder=RandomVectors(), settings=settings)

    with make() as engine:
        loading = load(engine, args.chunks)
    results: dict[str, Any] = {"machine": f"{platform.machine()}, 2 cores", "load_s": loading}
    with psycopg.connect(url) as connection:
        row = connection.execute("SHOW server_version").fetchone()
        results["postgresql"] = row[0] if row else "?"
    results["policy"] = measure_policy(make, url, args.chunks, args.runs)
    with make() as engine:
        results["timing"] = measure_timing(engine, 5 * args.runs)
        results["verify"] = measure_verify(engine)
    write(results, args.out)
    print((args.out / "results.md").read_text())


if __name__ == "__main__":
    main()
