# Generated from engine/_async/reindex.py by tools/unasync.py: change that file instead.
"""Make the words of every stored chunk again, after a change of the analyser or of how words are weighed."""

import json
from collections.abc import Mapping
from typing import Any, Final

from context_engine.db._sync.store import Store, Transaction
from context_engine.engine import encode
from context_engine.engine.encode import EncodedText
from context_engine.names import Progress
from context_engine.retrieval.compose import Statement
from context_engine.settings import Settings
from context_engine.sql import load
from context_engine.text.analyse import Analyser

_BATCH: Final = 1_000


class Reindexer:
    """Rewrites the text side of one database."""

    def __init__(self, store: Store, analyser: Analyser, settings: Settings) -> None:
        self._store = store
        self._analyser = analyser
        self._settings = settings

    def run(self, facts: Mapping[str, Mapping[str, Any]], progress: Progress | None = None) -> int:
        """Rewrite everything in one transaction: searches see the old words until it ends, and the new ones then.

        Args:
            facts: what is recorded afterwards, by name.
            progress: called after each batch with documents done and in all.

        Returns:
            How many documents there were.
        """
        done, after = 0, -1
        with self._store.write() as transaction:
            _, [(total, *_)] = transaction.run(
                Statement(load("admin/reindex_lock")), Statement(load("diagnostics/counts"))
            )
            while ids := self._batch(transaction, after):
                done, after = done + len(ids), ids[-1]
                if progress:
                    progress(done, total)
            for name, value in facts.items():
                params = {"name": name, "value": json.dumps(value)}
                transaction.run(Statement(load("admin/replace_setting"), params))
        return done

    def _batch(self, transaction: Transaction, after: int) -> list[int]:
        [rows] = transaction.run(Statement(load("admin/reindex_batch"), {"after": after, "limit": _BATCH}))
        if not rows:
            return []
        texts = EncodedText()
        for _, name, _, _, _, content_hash, text in rows:
            indexed = f"{name}\n{text}" if name else text
            texts.add(bytes(content_hash), name, indexed, self._analyser, self._settings.analyser)
        ids = list(dict.fromkeys(row[0] for row in rows))
        stale = {"document_ids": [row[0] for row in rows], "chunk_ids": [row[2] for row in rows]}
        transaction.run(
            Statement(load("write/add_words"), encode.word_params(texts.words)),
            Statement(load("write/untally_words"), {"ids": ids}),
            Statement(load("write/delete_chunks"), stale),
        )
        transaction.copy("write/copy_chunks", encode.stored_chunk_rows(rows, texts))
        return ids
