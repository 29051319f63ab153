"""The command `doctor`."""

from dataclasses import asdict, replace
from typing import Any

import typer

from context_engine import ContextEngineError, Settings, __version__
from context_engine.diagnostics.doctor import Finding, changed_settings, describe, judge
from context_engine.diagnostics.facts import DatabaseFacts
from context_engine.engine.arguments import default_embedder
from context_engine.models.embedder import as_embedder, embed_query
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.helptext import examples, paragraphs
from context_engine.surfaces.cli.output import out, plain, print_json, table
from context_engine.surfaces.cli.session import Session, session_of

HELP = paragraphs("""
Look for what is wrong: server, extensions, tables, model, index, role.

Changes nothing. Ends with status 1 when there is a problem, and says what to do about each; a warning alone ends with
status 0.
""")

EPILOG = examples(
    "doctor",
    "--database-url postgresql://db.example/docs doctor --json",
)


def doctor(context: typer.Context, as_json: options.AsJson = False) -> None:
    """Examine the database."""
    settings = Settings()
    facts, findings = _examine(session_of(context), settings)
    changed = changed_settings(settings)
    if as_json:
        print_json(_report_json(facts, findings, changed))
    else:
        _show(facts, findings, changed)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)


def _examine(session: Session, settings: Settings) -> tuple[DatabaseFacts | None, list[Finding]]:
    findings: list[Finding] = []
    try:
        embedder = as_embedder(session.embedder or default_embedder())
    except ContextEngineError as error:
        return None, [Finding("problem", str(error), "without a model nothing can be opened")]
    try:
        embed_query(embedder, "doctor")
    except ContextEngineError as error:
        findings.append(Finding("problem", str(error), "put the model right; until then only words are found"))
    try:
        with_model = replace(session, embedder=embedder)
        facts = with_model.engine().inspect()
    except ContextEngineError as error:
        where = "the database URL" if session.database_url or settings.database_url else "the data directory"
        return None, [
            *findings,
            Finding("problem", str(error), f"check {where} and the server's log"),
        ]
    return facts, [*findings, *judge(facts, settings)]


def _show(facts: DatabaseFacts | None, findings: list[Finding], changed: dict[str, Any]) -> None:
    rows = [("context-engine", __version__), *(_rows(facts) if facts else [])]
    rows += [(f"setting {name}", str(value)) for name, value in changed.items()]
    out.print(table("", "", rows=rows))
    out.print()
    for finding in findings:
        style = "red" if finding.level == "problem" else "yellow"
        out.print(plain(f"{finding.level}: {finding.what}", style), soft_wrap=True)
        out.print(plain(f"→ {finding.advice}"), soft_wrap=True)
    if not findings:
        out.print("nothing is wrong", style="green")


def _rows(facts: DatabaseFacts) -> list[tuple[str, str]]:
    server = facts.server
    place = "embedded" if facts.embedded else "remote"
    powers = ["superuser"] * server.superuser + ["BYPASSRLS"] * server.bypasses_row_security
    role = f"{server.role} ({', '.join(powers)})" if powers else server.role
    rows = [
        ("PostgreSQL", f"{server.version}, {place}, database {server.database}"),
        ("role", role),
    ]
    for name, extension in facts.extensions.items():
        found = extension.version and f"{extension.version}, in schema {extension.schema}"
        rows.append((name, found or f"not created ({extension.available} on the server)"))
    rows.append(("schema version", str(facts.migrations[-1]) if facts.migrations else "no tables"))
    for name, recorded in facts.recorded.items():
        order = {key: recorded[key] for key in facts.expected.get(name, ()) if key in recorded}
        rows.append((name, describe({**order, **recorded})))
    if facts.counts:
        counts = facts.counts
        rows += [
            (
                "stored",
                f"{counts.documents:,} documents, {counts.chunks:,} chunks, {counts.embeddings:,} vectors",
            ),
            ("access", f"{counts.access_classes:,} access classes, {counts.policies:,} policies"),
            ("vector index", _index_words(facts)),
        ]
    return rows


def _index_words(facts: DatabaseFacts) -> str:
    if facts.vector_index == "absent":
        return "none: it is built when there are more chunks than storage.ann_exact_threshold"
    return str(facts.vector_index)


def _report_json(facts: DatabaseFacts | None, findings: list[Finding], changed: dict[str, Any]) -> dict[str, Any]:
    return {
        "ok": all(finding.level != "problem" for finding in findings),
        "version": __version__,
        "database": asdict(facts) if facts else None,
        "settings": changed,
        "findings": [asdict(finding) for finding in findings],
    }
