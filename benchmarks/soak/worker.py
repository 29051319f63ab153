"""One process of the soak: it reads, writes, revokes or deletes until its time is over, and tells what it saw."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import psutil

from context_engine import ACL, TRUSTED, ContextEngineError, Document, Engine, NotFound, Policy, document_id
from context_engine.access import normalise_acl

from . import world
from .snapshot import Snapshots, read_differences, search_differences

Role = Literal["reader", "writer", "revoker", "deleter"]
ROLES: Final[tuple[Role, ...]] = ("reader", "writer", "reader", "revoker", "reader", "deleter", "writer", "revoker")
_SAMPLE_S: Final = 2.0
_KEPT: Final = 20


@dataclass(slots=True)
class Notes:
    """What a process has done and seen."""

    done: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    wrong_count: int = 0
    ms: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    rss: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])

    def differ(self, texts: list[str]) -> None:
        self.wrong_count += len(texts)
        self.wrong += texts[: _KEPT - len(self.wrong)]


class Worker:
    """A process with an engine and documents of its own."""

    def __init__(self, url: str, number: int, role: Role, counters: Any, embedder: Any = world.EMBEDDER) -> None:
        self.engine = Engine(url, embedder=embedder, settings=world.settings())
        self.number = number
        self.role = role
        self.rng = random.Random(number)
        self.notes = Notes()
        self.snapshots = Snapshots(url)
        self._counters = counters
        self._process = psutil.Process()
        self.owned: dict[str, tuple[str, Any] | None] = {}
        self._version = 0

    def run(self, until: float, out: Path) -> None:
        started = time.monotonic()
        sample_at = started
        steps: dict[Role, Callable[[], None]] = {
            "reader": self.read, "writer": self.write, "revoker": self.revoke, "deleter": self.delete,
        }  # fmt: skip
        while time.monotonic() < until:
            if time.monotonic() >= sample_at:
                self.notes.rss.append((round(time.monotonic() - started, 1), self._process.memory_info().rss))
                sample_at += _SAMPLE_S
            try:
                steps[self.role]()
            except ContextEngineError as error:
                state = getattr(error.__cause__, "sqlstate", None)
                self.notes.errors[f"{type(error).__name__} {state}"] += 1
        found = {
            "number": self.number,
            "role": self.role,
            "done": dict(self.notes.done),
            "errors": dict(self.notes.errors),
            "wrong": self.notes.wrong,
            "wrong_count": self.notes.wrong_count,
            "ms": {kind: [round(ms, 2) for ms in values] for kind, values in self.notes.ms.items()},
            "rss": self.notes.rss,
            "owned": {name: state for name, state in self.owned.items()},
        }
        (out / f"process-{self.number}.json").write_text(json.dumps(found, default=str))
        self.engine.close()
        self.snapshots.close()

    def timed(self, kind: str, call: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = call()
        self.notes.ms.setdefault(kind, []).append((time.perf_counter() - started) * 1000)
        self.notes.done[kind.split(":")[0]] += 1
        self._counters[2 * self.number + (kind.split(":")[0] not in ("search", "read"))] += 1
        return result

    def read(self) -> None:
        """Search, and now and then count, list and fetch; each answer is held against its snapshot."""
        asked = world.question(self.rng)
        with self.snapshots.taken() as oracle:
            if self.rng.random() < 0.15:
                self.notes.differ(self.timed("read", lambda: read_differences(self.engine, oracle, asked)))
                return
            result = self.timed(f"search:{asked.kind}", lambda: self.search(asked))
            self.notes.differ(search_differences(self.engine, oracle, asked, result))

    def search(self, asked: world.Question) -> Any:
        return self.engine.search(
            asked.query, principals=asked.principals, top_k=asked.top_k, weights=asked.weights, **asked.filters
        )

    def _pick(self) -> tuple[str, bool]:
        """Choose a document: mostly one's own, now and then one that all change."""
        if self.rng.random() < 0.3:
            return f"shared-{self.rng.randrange(world.SHARED)}", False
        return f"own-{self.number}-{self.rng.randrange(world.OWNED)}", True

    def _draw(self, name: str) -> Document:
        self._version += 1
        rule = world.acl(self.rng)
        return world.document(self.rng, name, f"process {self.number} version {self._version}", rule)

    def write(self) -> None:
        """Ingest one to ten documents, new or changed, and now and then look whether what was acknowledged is there."""
        picked = dict(self._pick() for _ in range(self.rng.randint(1, 10)))
        documents = [self._draw(name) for name in picked]
        report = self.timed("write:ingest", lambda: self.engine.ingest(documents))
        if report.failed:
            self.notes.errors["refused document"] += len(report.failed)
        for made, outcome in zip(documents, report.outcomes, strict=True):
            if picked[str(made.external_id)] and outcome.outcome != "failed":
                self.owned[str(made.external_id)] = (made.text, plain_acl(made.acl))
        for name, state in self.owned.items():
            if state and self.rng.random() < 0.02:
                self._check_own(name, state)

    def _check_own(self, name: str, state: tuple[str, Any]) -> None:
        """What was acknowledged is there, at once."""
        key = document_id("default", name)
        try:
            stored = self.engine.get_document(key, principals=TRUSTED).text
        except NotFound:
            stored = None
        if stored != state[0]:
            self.notes.differ([f"lost or stale: {name}"])
        elif plain_acl(self.engine.get_acl(key)) != state[1]:
            self.notes.differ([f"another ACL: {name}"])

    def revoke(self) -> None:
        """Change an ACL or a policy, and see in the very next search that whoever is out is out."""
        if self.rng.random() < 0.3:
            name = world.POLICIES[self.rng.randrange(len(world.POLICIES))]
            self.timed("write:policy", lambda: self.engine.set_policy(name, world.policy_rule(self.rng)))
            return
        name, own = self._pick()
        if own and not self.owned.get(name):
            made = self._draw(name)
            self.timed("write:ingest", lambda: self.engine.ingest([made]))
            self.owned[name] = (made.text, plain_acl(made.acl))
        key, kept = document_id("default", name), self.rng.sample(world.GROUPS, 1)
        try:
            self.timed("write:set_acl", lambda: self.engine.set_acl(key, kept))
        except NotFound:
            return  # a shared one that another has deleted
        state = self.owned.get(name)
        if not own or not state:
            return
        self.owned[name] = (state[0], plain_acl(kept))
        out = [group for group in world.GROUPS if group not in kept]
        asked = self.timed("search:after revoking", lambda: self.search_one(name, state[0], out))
        if asked.hits:
            self.notes.differ([f"leak: {name} after it was acknowledged that {out} are out"])
        if not self.search_one(name, state[0], kept).hits:
            self.notes.differ([f"lost: {name} for {kept}"])

    def search_one(self, name: str, text: str, principals: list[str]) -> Any:
        return self.engine.search(
            " ".join(text.split()[:4]), principals=principals, documents=[document_id("default", name)]
        )

    def delete(self) -> None:
        """Delete a few documents, see that they are gone, and now and then write them again."""
        picked = dict(self._pick() for _ in range(self.rng.randint(1, 5)))
        if self.rng.random() < 0.6:
            documents = [self._draw(name) for name in picked]
            self.timed("write:ingest", lambda: self.engine.ingest(documents))
            for made in documents:
                if picked[str(made.external_id)]:
                    self.owned[str(made.external_id)] = (made.text, plain_acl(made.acl))
            return
        ids = [document_id("default", name) for name in picked]
        self.timed("write:delete", lambda: self.engine.delete(ids))
        for name, own in picked.items():
            if not own:
                continue
            state, self.owned[name] = self.owned.get(name), None
            if state and self.search_one(name, state[0], world.GROUPS).hits:
                self.notes.differ([f"deleted and still there: {name}"])


def plain_acl(acl: Any) -> Any:
    """Bring an ACL to a form that can be compared and written down."""
    if isinstance(acl, Policy):
        return f"policy {acl.name}"
    rule = normalise_acl(acl if not isinstance(acl, ACL) else acl)
    return repr(rule)
