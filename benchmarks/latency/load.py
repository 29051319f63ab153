"""Fill both schemas and note what it took: rates, memory, sizes, versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil
import psycopg
from psycopg import sql
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from context_engine import Engine, Settings

from . import baselines
from .data import Benchmark, StoredVectors, as_documents

ENGINE_SCHEMA: Final = "latency_engine"
_SAMPLE_EVERY_S = 0.25
_MIB = 1024 * 1024


def new_engine(url: str, benchmark: Benchmark) -> Engine:
    """Open the engine with its defaults, but for chunks so large that nearly every document is one."""
    settings = Settings(storage={"schema_name": ENGINE_SCHEMA}, ingest={"chunk_tokens": 4096})
    return Engine(url, embedder=StoredVectors(benchmark), settings=settings)


class Memory:
    """Samples memory while a block runs: this process, and a local server's processes together.

    The server's is the proportional set size, which counts shared memory once.
    """

    def __init__(self, url: str) -> None:
        self._own = psutil.Process()
        self._server = _postmaster(url)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._peak: dict[str, float] = {}
        self._before: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._before = self._measure()
        self._peak = dict(self._before)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    @property
    def facts(self) -> dict[str, float]:
        """Mebibytes before, and at the highest."""
        before = {f"{name}_before_mib": value for name, value in self._before.items()}
        return before | {f"{name}_peak_mib": value for name, value in self._peak.items()}

    def _sample(self) -> None:
        while not self._done.wait(_SAMPLE_EVERY_S):
            for name, value in self._measure().items():
                self._peak[name] = max(value, self._peak.get(name, 0.0))

    def _measure(self) -> dict[str, float]:
        found = {"python": self._own.memory_info().rss / _MIB}
        if self._server is not None:
            family = [self._server, *self._server.children(recursive=True)]
            found["server"] = sum(map(_share, family)) / _MIB
        return found


def _share(process: psutil.Process) -> int:
    try:
        memory = process.memory_full_info()
        return int(getattr(memory, "pss", memory.rss))
    except psutil.Error:
        return 0


def _postmaster(url: str) -> psutil.Process | None:
    """Find the server's first process, when it runs on this machine and may be looked at."""
    with psycopg.connect(url, autocommit=True) as connection:
        backend = connection.info.backend_pid
        try:
            process = psutil.Process(backend)
            if "postgres" not in process.name():
                return None
            process.memory_full_info()
            return process.parent()
        except psutil.Error:
            return None


def ingest(url: str, benchmark: Benchmark, console: Console) -> dict[str, Any]:
    """Store the corpus in one call of `Engine.ingest`, with a progress bar."""
    with psycopg.connect(url, autocommit=True) as connection:
        schema = sql.Identifier(ENGINE_SCHEMA)
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(schema))
    documents = as_documents(benchmark.documents)
    columns = (TextColumn("ingest"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with new_engine(url, benchmark) as engine, Progress(*columns, console=console) as bar:
        task = bar.add_task("ingest", total=len(documents))
        with Memory(url) as memory:
            started = time.perf_counter()
            report = engine.ingest(
                documents,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
            wall_s = time.perf_counter() - started
    if report.failed:
        raise RuntimeError(f"{len(report.failed)} documents failed; the first: {report.failed[0]}")
    embed_s = report.timings_ms["embed"] / 1000
    settle_s = report.timings_ms.get("settle", 0.0) / 1000
    return {
        "documents": len(documents),
        "chunks": sum(outcome.chunks for outcome in report.outcomes),
        "wall_s": wall_s,
        "timings_ms": dict(report.timings_ms),
        "documents_per_s": len(documents) / wall_s,
        "documents_per_s_without_embedder": len(documents) / (wall_s - embed_s),
        "documents_per_s_without_embedder_and_settling": len(documents) / (wall_s - embed_s - settle_s),
        "memory": memory.facts,
    }


def sizes(url: str) -> list[dict[str, Any]]:
    """List rows, bytes of heap and TOAST, and bytes of each index, of both schemas."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(
            """
            SELECT nspname, relname, reltuples::bigint, pg_relation_size(pg_class.oid),
                pg_table_size(pg_class.oid) - pg_relation_size(pg_class.oid), pg_indexes_size(pg_class.oid),
                (
                    SELECT jsonb_object_agg(indexrelid::regclass::text, pg_relation_size(indexrelid))
                    FROM pg_index WHERE indrelid = pg_class.oid
                )
            FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE relkind = 'r' AND nspname = ANY (%s)
            ORDER BY nspname, pg_total_relation_size(pg_class.oid) DESC
            """,
            ([ENGINE_SCHEMA, baselines.SCHEMA],),
        )
        names = ("schema", "table", "rows", "heap_bytes", "toast_bytes", "index_bytes", "indexes")
        return [dict(zip(names, row, strict=True)) for row in cursor]


def conditions(url: str) -> dict[str, Any]:
    """Name the versions, the machine, and the server's settings that matter."""
    asked = (
        "shared_buffers",
        "work_mem",
        "max_parallel_workers_per_gather",
        "jit",
        "random_page_cost",
    )
    with psycopg.connect(url, autocommit=True) as connection:
        version = connection.execute("SELECT current_setting('server_version')").fetchone()
        vector = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
        settings = {
            name: (connection.execute("SELECT current_setting(%s)", (name,)).fetchone() or ("?",))[0] for name in asked
        }
    packages = ("context-engine", "psycopg", "numpy")
    return {
        "PostgreSQL": version[0] if version else "?",
        "pgvector": vector[0] if vector else "?",
        "Python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": _cores(),
        "memory_gib": round(psutil.virtual_memory().total / 1024**3, 1),
        "server_settings": settings,
    }


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
