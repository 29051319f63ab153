"""The command `doctor`."""

from dataclasses import asdict, replace

import typer

from context_engine import ContextEngineError, Settings, __version__
from context_engine.diagnostics.doctor import Finding, changed_settings, describe, judge
from context_engine.diagnostics.facts import DatabaseFacts
from context_engine.engine.arguments import default_embedder
from context_engine.models.embedder import as_embedder, embed_query
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.output import out, print_json, say, table


def doctor(context: typer.Context, as_json: options.AsJson = False) -> None:
    """Look for what is wrong: server, extensions, tables, model, index, role.

    Changes nothing. Ends with status 1 when there is a problem, and says what to do about each; a warning alone ends
    with status 0.

    Examples:
        doctor
        --database-url postgresql://db.example/docs doctor --json
    """
    settings = Settings()
    facts, findings = _examine(options.session_of(context), settings)
    changed = changed_settings(settings)
    problems = any(finding.level == "problem" for finding in findings)
    if as_json:
        report = {"ok": not problems, "version": __version__, "database": asdict(facts) if facts else None}
        print_json({**report, "settings": changed, "findings": [asdict(finding) for finding in findings]})
    else:
        rows = [("context-engine", __version__), *(_rows(facts) if facts else [])]
        rows += [(f"setting {name}", str(value)) for name, value in changed.items()]
        out.print(table("", "", rows=rows))
        out.print()
        for finding in findings:
            say(f"{finding.level}: {finding.what}", "red" if finding.level == "problem" else "yellow")
            say(f"→ {finding.advice}")
        if not findings:
            say("nothing is wrong", "green")
    if problems:
        raise typer.Exit(1)


def _examine(session: options.Session, settings: Settings) -> tuple[DatabaseFacts | None, list[Finding]]:
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
        facts = replace(session, embedder=embedder).engine().inspect()
    except ContextEngineError as error:
        where = "the database URL" if session.database_url or settings.database_url else "the data directory"
        return None, [*findings, Finding("problem", str(error), f"check {where} and the server's log")]
    return facts, [*findings, *judge(facts, settings)]


def _rows(facts: DatabaseFacts) -> list[tuple[str, str]]:
    server, counts = facts.server, facts.counts
    place = "embedded" if facts.embedded else "remote"
    powers = f" ({', '.join(server.powers)})" if server.powers else ""
    rows = [("PostgreSQL", f"{server.version}, {place}, database {server.database}"), ("role", server.role + powers)]
    for name, extension in facts.extensions.items():
        found = extension.version and f"{extension.version}, in schema {extension.schema}"
        rows.append((name, found or f"not created ({extension.available} on the server)"))
    rows.append(("schema version", str(facts.migrations[-1]) if facts.migrations else "no tables"))
    for name, recorded in facts.recorded.items():
        order = {key: recorded[key] for key in facts.expected.get(name, ()) if key in recorded}
        rows.append((name, describe({**order, **recorded})))
    if counts:
        vectors = f"{counts.embeddings:,} vectors"
        rows.append(("stored", f"{counts.documents:,} documents, {counts.chunks:,} chunks, {vectors}"))
        rows.append(("access", f"{counts.access_classes:,} access classes, {counts.policies:,} policies"))
        absent = "none: it is built when there are more chunks than storage.ann_exact_threshold"
        rows += _belt(facts)
        rows.append(("vector index", absent if facts.vector_index == "absent" else str(facts.vector_index)))
    return rows


def _belt(facts: DatabaseFacts) -> list[tuple[str, str]]:
    found = facts.row_security
    if not found or not found.guarded:
        return [("row-level policies", "none: `context-engine harden` makes them")]
    binding = "not binding this role" if found.bypassed else "binding this role"
    index = ", @@ is leakproof" if found.leakproof else ""
    return [("row-level policies", f"on {', '.join(found.guarded)}, {binding}{index}")]
