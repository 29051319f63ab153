"""The same in smaller tables: the beginning of the same vectors, with access classes of the same size."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from psycopg import sql

from . import layouts, load
from .layouts import CLASSES
from .measure import Bench
from .methods import Ours

if TYPE_CHECKING:
    from .__main__ import Run

_PARTS: Final = (8, 4, 2, 1)
"""The whole is stored already: it is the random layout. It is asked again, by ours alone as the others are."""
_VISIBLE: Final = (0.001, 0.01, 0.1)
"""Visible chunks, as shares of the whole: the same numbers at every size."""
_SCHEMA: Final = load.schema_of("growth")


def measure(run: Run, url: str, bench: Bench) -> None:
    """Measure ours on each table that is not done yet."""
    whole = run.args.chunks
    classes = min(CLASSES, whole)
    for part in _PARTS:
        count = whole // part
        shares = [share * part for share in _VISIBLE]
        layout = layouts.drawn("growth", count, classes // part, shares)
        names = [f"growth {caller.visible:,} visible of {count:,}" for caller in layout.callers]
        if set(names) <= set(run.facts["cells"]):
            continue
        schema = _SCHEMA if part > 1 else load.schema_of("random")
        if part > 1:
            load.fill(url, schema, run.corpus.vectors[:count], layout, run.progress)
            if max(caller.visible for caller in layout.callers) > run.args.threshold:
                built = load.build_index(url, schema, count, run.progress)
                run.facts.setdefault("growth", {})[str(count)] = built
        elif schema not in run.facts["filled"]:
            continue
        with ExitStack() as stack:
            store = stack.enter_context(load.open_store(url, schema, 60))
            index = load.index_in_force(store)
            ours = Ours("ours", store, index, run.args.threshold, run.args.ann_rows, count)
            for caller, name in zip(layout.callers, names, strict=True):
                run.cell(bench, caller, layout.seen(caller), [ours], name)
    with load.connect(url) as connection:
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(_SCHEMA)))
