"""The command `search`."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from context_engine import Hit, SearchReport, SearchResult, Settings
from context_engine.retrieval.query import read_question
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.helptext import examples, paragraphs
from context_engine.surfaces.cli.output import out, plain, print_json
from context_engine.surfaces.cli.session import session_of
from context_engine.surfaces.cli.snippet import snippet
from context_engine.surfaces.cli.wire import document_json
from context_engine.text.analyse import Analyser

HELP = paragraphs("""
Search what a caller may see.

Say who asks: --as for each principal of the caller, --anonymous for a visitor, or --trusted for no limits. The answer
is what a database with only that caller's documents would give.

The question may hold "phrases" and -exclusions.
""")

EPILOG = examples(
    'search "notice period" --as group:staff --as group:hr',
    'search "launch date" --anonymous --source handbook --metadata area=public',
    "search AX-4410-B --trusted --top-k 3 --json",
)


def search(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What is asked.")],
    as_: options.As = None,
    anonymous: options.Anonymous = False,
    trusted: options.Trusted = False,
    top_k: Annotated[int, typer.Option("--top-k", metavar="N", help="How many hits at most.")] = 10,
    sources: options.Sources = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Only documents with this value; repeatable. VALUE may be JSON: 2020, true, "
            '["a", "b"] for any of them, {"gte": 2020} to compare.',
        ),
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Scan every visible vector, however many there are.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Search."""
    principals = options.caller(as_, anonymous, trusted)
    with session_of(context).engine() as engine:
        result = engine.search(
            query,
            principals=principals,
            top_k=top_k,
            sources=sources or None,
            metadata=_metadata(metadata or []),
            exact=exact,
        )
        if as_json:
            print_json(_result_json(result))
        else:
            _show(query, result, engine.settings)


def _metadata(pairs: list[str]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"--metadata takes KEY=VALUE, not {pair!r}")
        if key in found:
            raise typer.BadParameter(f'--metadata names {key!r} twice; {key}=["a", "b"] asks for either')
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found or None


def _show(query: str, result: SearchResult, settings: Settings) -> None:
    analyser = Analyser(settings.analyser.language)
    terms = read_question(query, analyser).terms
    for rank, hit in enumerate(result.hits, 1):
        name = plain(hit.document.name or hit.document.external_id, "bold")
        out.print(Text.assemble(f"{rank:>2}. ", name, (f"  {hit.score:.4f}", "dim")))
        out.print(Padding(snippet(hit.text, terms, analyser), (0, 0, 0, 4), expand=False))
        out.print(Padding(plain(_origin(hit), "dim"), (0, 0, 1, 4), expand=False))
    if not result.hits:
        out.print("no hits")
    out.print(plain(_report_line(result.report), "dim"), soft_wrap=True)
    for leg, report in result.report.legs.items():
        if report.error:
            out.print(plain(f"the {leg} leg failed: {report.error}", "yellow"), soft_wrap=True)


def _origin(hit: Hit) -> str:
    document = hit.document
    parts = [document.source, document.external_id]
    if hit.position:
        parts.append(f"chunk {hit.position}")
    return " · ".join([*parts, *(f"{leg} {place.rank}" for leg, place in hit.legs.items())])


def _report_line(report: SearchReport) -> str:
    routes = [f"{leg} {part.route} ({part.candidates})" for leg, part in report.legs.items()]
    approximate = [leg for leg, part in report.legs.items() if not part.exact]
    exact = f"approximate: {', '.join(approximate)}" if approximate else "exact"
    seen = f"{report.visible_chunks:,} chunks visible"
    milliseconds = report.timings_ms.get("total", 0) + report.timings_ms.get("embed", 0)
    return " · ".join([*routes, exact, seen, f"{milliseconds:.0f} ms"])


def _result_json(result: SearchResult) -> dict[str, Any]:
    hits = [
        {
            "rank": rank,
            "chunk_id": str(hit.chunk_id),
            "position": hit.position,
            "score": hit.score,
            "text": hit.text,
            "document": document_json(hit.document),
            "legs": {leg: asdict(place) for leg, place in hit.legs.items()},
        }
        for rank, hit in enumerate(result.hits, 1)
    ]
    return {"hits": hits, "report": asdict(result.report)}
