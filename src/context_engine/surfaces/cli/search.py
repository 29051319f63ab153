"""The command `search`."""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer
from rich.padding import Padding
from rich.text import Text

from context_engine import SearchResult, Settings
from context_engine.retrieval.query import read_question
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.output import document_json, out, plain, print_json, printable, say
from context_engine.text.analyse import Analyser

_WORD: Final = re.compile(r"\w+(?:['’./_-]\w+)*")
_BEFORE: Final = 40
METADATA: Final = (
    'Only documents with this value; repeatable. VALUE may be JSON: 2020, true, ["a", "b"] for any of them, '
    '{"gte": 2020} to compare.'
)


def search(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What is asked.")],
    as_: options.As = None,
    anonymous: options.Anonymous = False,
    trusted: options.Trusted = False,
    top_k: Annotated[int, typer.Option("--top-k", metavar="N", help="How many hits at most.")] = 10,
    sources: options.Sources = None,
    metadata: Annotated[options.Words, typer.Option(metavar="KEY=VALUE", help=METADATA)] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Scan every visible vector, however many there are.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Search what a caller may see.

    Say who asks: --as for each principal of the caller, --anonymous for a visitor, or --trusted for no limits. The
    answer is what a database with only that caller's documents would give.

    The question may hold "phrases" and -exclusions.

    Examples:
        search "notice period" --as group:staff --as group:hr
        search "launch date" --anonymous --source handbook --metadata area=public
        search AX-4410-B --trusted --top-k 3 --json
    """
    who, wanted = options.caller(as_, anonymous, trusted), read_metadata(metadata or [])
    with options.session_of(context).engine() as engine:
        result = engine.search(
            query, principals=who, top_k=top_k, sources=sources or None, metadata=wanted, exact=exact
        )
    if as_json:
        hits = [
            {"rank": rank, **asdict(hit), "chunk_id": str(hit.chunk_id), "document": document_json(hit.document)}
            for rank, hit in enumerate(result.hits, 1)
        ]
        print_json({"hits": hits, "report": asdict(result.report)})
    else:
        _show(query, result, engine.settings)


def read_metadata(pairs: list[str]) -> dict[str, Any] | None:
    """Read metadata filters from KEY=VALUE pairs; a value that is JSON is taken as such."""
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
    analyser = Analyser.of(settings.analyser)
    terms = read_question(query, analyser).terms
    for rank, hit in enumerate(result.hits, 1):
        name = plain(hit.document.name or hit.document.external_id, "bold")
        out.print(Text.assemble(f"{rank:>2}. ", name, (f"  {hit.score:.4f}", "dim")))
        out.print(Padding(snippet(hit.text, terms, analyser), (0, 0, 0, 4), expand=False))
        chunk = [f"chunk {hit.position}"] if hit.position else []
        legs = [f"{leg} {place.rank}" for leg, place in hit.legs.items()]
        origin = " · ".join([hit.document.source, hit.document.external_id, *chunk, *legs])
        out.print(Padding(plain(origin, "dim"), (0, 0, 1, 4), expand=False))
    if not result.hits:
        say("no hits")
    report, total_ms = result.report, sum(result.report.timings_ms.get(part, 0) for part in ("total", "embed"))
    parts = [f"{leg} {part.route} ({part.candidates})" for leg, part in report.legs.items()]
    approximate = ", ".join(leg for leg, part in report.legs.items() if not part.exact)
    parts += [f"approximate: {approximate}" if approximate else "exact"]
    say(" · ".join([*parts, f"{report.visible_chunks:,} chunks visible", f"{total_ms:.0f} ms"]), "dim")
    for leg, part in report.legs.items():
        if part.error:
            say(f"the {leg} leg failed: {part.error}", "yellow")


def snippet(text: str, terms: Iterable[str], analyser: Analyser, width: int = 240) -> Text:
    """Cut the stretch that holds the most of the terms, and mark every word that stands for one."""
    line, wanted = printable(text), frozenset(terms)
    words = ((word.span(), analyser.words(word[0])) for word in _WORD.finditer(line))
    found = ((span, wanted & {lexeme for part in parts for lexeme, _ in part.lexemes}) for span, parts in words)
    matches = [(span, lexemes) for span, lexemes in found if lexemes]

    def terms_from(start: int) -> int:
        inside = (lexemes for span, lexemes in matches if start <= span[0] and span[1] <= start + width)
        return len(frozenset[str]().union(*inside))

    starts = (max(first - _BEFORE, 0) for (first, _), _ in matches)
    start = max(starts, key=terms_from, default=0) if len(line) > width else 0
    end = min(len(line), start + width)
    if start:
        start = line.find(" ", start, end) + 1 or start
    if end < len(line):
        end = max(line.rfind(" ", start, end), start + width // 2)
    shown = Text(line)
    for span, _ in matches:
        shown.stylize("bold yellow", *span)
    return Text.assemble("…" if start else "", shown[start:end], "…" if end < len(line) else "")
