"""The command `check-acl-exposure`."""

import json
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from context_engine import InputError, Settings
from context_engine.db.exposure.measure import Request, measure
from context_engine.engine.embedded import start_embedded
from context_engine.exposure.as_json import as_json
from context_engine.exposure.model import Metric, Report
from context_engine.exposure.page import page
from context_engine.exposure.target import Wanted
from context_engine.exposure.verdict import is_measured, passes
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.exposure_report import show
from context_engine.surfaces.cli.output import err, print_json, say

_URL = "The database to look at; before the command it means the same."
_TABLE = "The table, with its schema where needed. Left out: the one with a vector column."
_ACL = "Who may read: a column, or COLUMN.KEY inside JSON. Left out: by its name."
_AS = "An ACL value (a principal, on a Context Engine database) that a caller holds; repeat it for each."
_CALLERS = "Callers to measure: a JSON list of ACL values on each line."
_QUERIES = "Question vectors: a NumPy .npy file, or a JSON list of numbers on each line. Left out: stored rows."
_METHOD = "How your application searches: what the verdict and --fail-under judge. Left out: planned, or routed."
_FAIL = "End with status 1 when a caller's recall is below this."
_EF = "What your application sets hnsw.ef_search to. Left out: what is set for this role and database."
_BUDGET = "Rows that all scans together may read."
_SHOW = "Write ACL values as they are; without it, a hash that no guess can be checked against."

_INTERRUPTED = 130

Url = Annotated[str | None, typer.Option("--database-url", metavar="URL", help=_URL)]
TableName = Annotated[str | None, typer.Option("--table", metavar="TABLE", help=_TABLE)]
Embedding = Annotated[str | None, typer.Option("--embedding-column", metavar="COLUMN", help="The vector column.")]
Acl = Annotated[str | None, typer.Option("--acl-column", metavar="COLUMN", help=_ACL)]
Collection = Annotated[str | None, typer.Option("--collection", metavar="NAME", help="LangChain's collection.")]
Distance = Annotated[Metric | None, typer.Option("--distance", help="Left out: as the vector index has it.")]
TopK = Annotated[int, typer.Option("--top-k", min=1, max=1_000, help="Rows that a caller asks for.")]
MaxScopes = Annotated[int, typer.Option("--max-scopes", min=1, max=1_000, help="Callers to choose.")]
Samples = Annotated[int, typer.Option("--samples", min=1, max=10_000, help="Questions of a kind for each caller.")]
Holding = Annotated[list[str] | None, typer.Option("--as", metavar="VALUE", help=_AS)]
Callers = Annotated[Path | None, typer.Option("--callers", metavar="FILE", help=_CALLERS, exists=True, dir_okay=False)]
Queries = Annotated[Path | None, typer.Option("--queries", metavar="FILE", help=_QUERIES, exists=True, dir_okay=False)]
Method = Annotated[str | None, typer.Option("--method", metavar="NAME", help=_METHOD)]
FailUnder = Annotated[float | None, typer.Option("--fail-under", min=0, max=1, metavar="RECALL", help=_FAIL)]
EfSearch = Annotated[int | None, typer.Option("--ef-search", min=1, max=1_000, help=_EF)]
Timeout = Annotated[float, typer.Option("--timeout-s", min=0.001, help="Limit for one statement.")]
Budget = Annotated[int, typer.Option("--row-budget", min=1, metavar="ROWS", help=_BUDGET)]
Seed = Annotated[int, typer.Option("--seed", help="Which rows are drawn.")]
ShowAcl = Annotated[bool, typer.Option("--show-acl", help=_SHOW)]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write a page with plots.")]


def check_acl_exposure(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    database_url: Url = None,
    table: TableName = None,
    embedding_column: Embedding = None,
    acl_column: Acl = None,
    collection: Collection = None,
    distance: Distance = None,
    top_k: TopK = 10,
    max_scopes: MaxScopes = 12,
    samples: Samples = 20,
    holding: Holding = None,
    callers: Callers = None,
    queries: Queries = None,
    method: Method = None,
    ef_search: EfSearch = None,
    fail_under: FailUnder = None,
    timeout_s: Timeout = 30.0,
    row_budget: Budget = 1_000_000_000,
    seed: Seed = 1,
    show_acl: ShowAcl = False,
    html: Html = None,
    as_json_: options.AsJson = False,
) -> None:
    """Measure whether searches lose results to permissions, on any table with pgvector.

    Works on a Context Engine database, on the tables of LangChain, LlamaIndex and Haystack, and on your own. Reads
    only: read-only transactions, no document text, SELECT on the table is enough. ACL values are hashed in the report.

    Searches for callers over the whole range of what they may see, filtering after the search, in the query, with the
    index forced, with an iterative scan, and as Context Engine routes; compares each with the exact answer.

    Examples:
        check-acl-exposure --database-url postgresql://db.example/app
        check-acl-exposure --table docs --acl-column allowed_groups --as hr --as staff --html report.html
        check-acl-exposure --acl-column cmetadata.tenant --method after-10x --fail-under 0.95 --json

    Exit status: 0 measured, 1 a caller is below --fail-under, 2 it could not be measured, 130 interrupted.
    """
    if html and not html.parent.is_dir():
        raise typer.BadParameter(f"--html: there is no folder {html.parent}")
    wanted = Wanted(table, embedding_column, acl_column, distance, collection)
    given = (*([tuple(holding)] if holding else []), *(_callers(callers) if callers else ()))
    questions = _questions(queries) if queries else ()
    request = Request(
        wanted, top_k, max_scopes, samples, given, questions, method, ef_search, timeout_s, row_budget, seed, show_acl
    )
    report = _run(options.session_of(context), database_url, request)
    passed = fail_under is None or passes(report, fail_under)
    if html:
        html.write_text(page(report), encoding="utf-8")
    if as_json_:
        print_json({**as_json(report), "fail_under": fail_under, "passed": passed})
    else:
        show(report)
        if html:
            say(f"the page with plots is in {html}")
        if not passed:
            say(f"failed: a caller has recall below {fail_under} ({report.methods[report.method]})", "red")
    _end(report, passed, bool(given) or fail_under is not None)


def _end(report: Report, passed: bool, asked: bool) -> None:
    """End with the status that tells a script how it went."""
    if not passed:
        raise typer.Exit(1)
    if asked and not is_measured(report):
        say("not measured: no row is open to the callers that were asked for", "red", err)
        raise typer.Exit(2)


def _run(session: options.Session, database_url: str | None, request: Request) -> Report:
    if database_url == "":
        raise typer.BadParameter("--database-url is empty")
    settings = Settings()
    url = database_url or session.database_url or settings.database_url
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[what]}"), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("measuring", total=None, what="")

        def advance(done: int, total: int, what: str) -> None:
            said = f"question {done:,} of {total:,}, {what}" if total else what
            bar.update(task, completed=done, total=total or None, what=said)

        try:
            if url:
                return measure(url, request, settings, advance)
            with start_embedded(session.data_dir or settings.data_dir) as server:
                return measure(server.url(), request, settings, advance)
        except KeyboardInterrupt as interrupt:
            bar.stop()
            say("stopped: nothing was changed, and nothing is left behind in the database", to=err)
            raise typer.Exit(_INTERRUPTED) from interrupt


def _lines(path: Path) -> list[Any]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except ValueError as error:
        raise InputError(f"{path} must have a JSON list on each line") from error


def _callers(path: Path) -> tuple[tuple[str, ...], ...]:
    callers = [tuple(map(str, cast(list[Any], line))) for line in _lines(path) if isinstance(line, list)]
    if not callers or len(callers) < len(_lines(path)) or not all(callers):
        raise InputError(f"{path} must have, on each line, a JSON list of the ACL values that a caller holds")
    return tuple(callers)


def _questions(path: Path) -> tuple[str, ...]:
    try:
        rows: Any = np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.array(_lines(path), float)
        vectors = np.asarray(rows, dtype=np.float32)
    except (ValueError, TypeError, OSError) as error:
        raise InputError(f"{path} holds no vectors: numbers, as many in each row, were expected") from error
    if vectors.ndim != 2 or not vectors.size or not np.isfinite(vectors).all():
        raise InputError(f"{path} must hold at least one row of finite numbers")
    return tuple("[" + ",".join(map(str, row.tolist())) + "]" for row in vectors)
