"""A small fixed world in which every part of the access rule matters, and the promise check over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import LiteralString

from corpora import Ask
from promise import (
    EMBEDDER,
    Database,
    Difference,
    compare_approximate,
    compare_databases,
    compare_reads,
    compare_with_oracle,
    key_of,
    settings_of,
)

from context_engine import ACL, PUBLIC, TRUSTED, Document, Engine, Policy
from context_engine.access import make_scope
from context_engine.engine.arguments import vector_literal
from context_engine.model import AclLike, Principals, chunk_id
from context_engine.retrieval import legs
from context_engine.retrieval.compose import Statement, Visibility, compose, resolve_scope
from context_engine.retrieval.query import read_question
from context_engine.sql import load
from context_engine.testing import Oracle
from context_engine.text.analyse import Analyser

POLICIES: dict[str, AclLike] = {"board": ACL(allow=["b"], deny=["c"])}
DOCUMENTS = [
    Document(text=text, external_id=f"s{number}", acl=acl, metadata={"year": 2020 + number % 3})
    for number, (text, acl) in enumerate(
        [
            ("a report on the server budget", PUBLIC),
            ("the kernel report of team zephyr", ["a"]),
            ("budget report. the team reads the report, the server team does not", ["a", "b"]),
            ("kernels of marzipan", ["a"]),
            ("kernal report report kernal zephyr", ["b"]),
            ("quokka report for the server", ACL(allow=["a"], require=["c"])),
            ("zephyr budget of the obsidian report", ACL(allow=[PUBLIC], deny=["a"])),
            ("server report for the board, kernel budget", Policy("board")),
            ("report kernel server zephyr budget team", []),
            ("the c team and its kernels report", ACL(allow=["c"], require=["b"])),
        ]
    )
]
FILED = 5
CALLERS = [["a"], ["b", "c"], []]
ASKS = [
    Ask("report kernel zephyr"),
    Ask("kernl budjet", 2),
    Ask("report -quokka", 3, {"metadata": {"year": {"gte": 2021}}}),
    Ask("kern"),
    Ask("kernl"),
]
VARIANTS = ["default", "ts_rank_cd", "ts_rank", "narrow"]


@dataclass(frozen=True)
class Scenario:
    """The world stored once, and again for each caller without what they may not read."""

    everything: Database
    visible: Mapping[int, Database]
    oracle: Oracle

    def differences(self) -> Iterator[Difference]:
        """Say where the promise is broken."""
        for number, caller in enumerate(CALLERS):
            alone = self.visible[number]
            yield from compare_databases(self.everything, alone, caller, ASKS, VARIANTS)
            yield from compare_reads(self.everything, alone, caller, ASKS[2:3], DOCUMENTS)
            yield from compare_with_oracle(self.everything, {"default": self.oracle}, caller, ASKS[:1])
            yield from compare_approximate(self.everything, self.oracle, caller, ASKS[:1])
            yield from self._statements(caller, alone)

    def _statements(self, caller: list[str], alone: Database) -> Iterator[Difference]:
        """Run by themselves the statements whose rows the engine filters again, or asks for by visible ids only."""
        keys = [key_of(document) for document in DOCUMENTS]
        wanted = {"document_ids": keys, "chunk_ids": [chunk_id(key, 0) for key in keys]}
        facts = {"queries": ["'report'", "'zephyr'"], "match": "'report'", "unwanted": None}
        for name, params in (
            ("read/hydrate", wanted),
            ("legs/visible_words", {"shortest": 3, "longest": 9, "guessed": ["zephyr"], "start": "ker"}),
            *(("read/sample", {"start": key}) for key in keys),
            *(("read/chunk_facts", {"document_id": key, **facts}) for key in keys),
            ("legs/visible_completions", {"start": "ker", "beginning": "'ker':*", "most": 4}),
        ):
            got = _rows(self.everything.engine(), caller, name, params)
            if got != _rows(alone.engine(), TRUSTED, name, params):
                yield Difference(name, f"{len(got)} rows for {caller}")
        yield from self._lists(caller)

    def _lists(self, caller: list[str]) -> Iterator[Difference]:
        """Let the vector index rank no more rows than the caller sees in it: a hidden one would take a place."""
        engine = self.everything.engine("ivf")
        engine.count(principals=caller)  # opens it
        scope = make_scope(caller)
        vector = vector_literal(EMBEDDER.embed_query("report"))
        with engine._opened.store.read() as transaction:
            [[resolved], [index]] = transaction.run(resolve_scope(scope), Statement(load("admin/vector_index_state")))
            visibility = Visibility(scope, *resolved)
            question = read_question("report", Analyser())
            asked = legs.ann_ivf(visibility, question, vector, legs.VectorIndex(*index), 1, 100).statement
            first = {document.external_id for document in DOCUMENTS[:FILED]}
            filed = sum(hit.external_id in first for hit in self.oracle.leg("ann", "report", caller))
            [found, exact] = transaction.run(
                replace(asked, params={**asked.params, "rows": filed}),
                legs.ann_exact(visibility, question, vector, 100).statement,
            )
        if found != exact:
            yield Difference("legs/ann_ivf", f"{found} instead of {exact}")


def _rows(engine: Engine, principals: Principals, name: LiteralString, params: dict[str, object]) -> list[str]:
    engine.count(principals=principals)  # opens it
    scope = make_scope(principals)
    with engine._opened.store.read() as transaction:
        [[resolved]] = transaction.run(resolve_scope(scope))
        [rows] = transaction.run(compose(name, Visibility(scope, *resolved), params))
    return sorted(map(str, rows))


def build(new_database: Callable[[], Database]) -> Scenario:
    """Store the scenario."""
    oracle = Oracle(DOCUMENTS, EMBEDDER, settings_of("default"), POLICIES)
    everything = new_database()
    # Half of the words come from the tally, the others are read.
    writer = everything.fill(DOCUMENTS[:FILED], POLICIES, variant="ivf")
    everything.tally_words()
    assert not writer.ingest(DOCUMENTS[FILED:]).failed
    visible: dict[int, Database] = {}
    for number, caller in enumerate(CALLERS):
        visible[number] = new_database()
        visible[number].fill(replace(item, acl=[]) for item in oracle.visible(caller))
    return Scenario(everything, visible, oracle)
