"""The report for programs."""

from dataclasses import asdict
from typing import Any

from context_engine.exposure.model import Caller, Report


def as_json(report: Report) -> dict[str, Any]:
    """Write the report as plain values; callers by falling share, figures by kind of question and way."""
    target = report.target
    everything = report.everything
    return {
        "environment": asdict(report.environment),
        "target": {
            "preset": target.preset,
            "table": target.table.title,
            "embedding_column": target.embedding.name,
            "dim": target.dim,
            "acl_column": target.acl.title,
            "acl_kind": target.acl.kind,
            "base_column": target.base[0].name if target.base else None,
            "operator": target.operator,
            "vector_index": asdict(target.index) if target.index else None,
            "filter_index": report.filter_index,
        },
        "rows": report.rows,
        "vectors": report.vectors,
        "acl_values": report.acl_values,
        "top_k": report.top_k,
        "samples": report.samples,
        "seed": report.seed,
        "method": report.method,
        "methods": dict(report.methods),
        "verdict": [asdict(finding) for finding in report.verdict],
        "everything": _caller(everything) if everything else None,
        "callers": [{**_caller(caller), "finding": asdict(report.findings[caller.label])} for caller in report.callers],
        "notes": list(report.notes),
        "request": dict(report.settings),
    }


def _caller(caller: Caller) -> dict[str, Any]:
    written = asdict(caller)
    return {**written, "layout": {**written["layout"], "lift": caller.layout.lift}}
