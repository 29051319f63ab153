"""One handbook, three readers, six questions: what each of them gets, and what filtering afterwards would leave.

Starts a PostgreSQL of its own in a temporary folder, fills it with `handbook/`, and asks `questions.toml`. Every number
below the answers is counted from them.
"""

import argparse
import sys
import tempfile
import tomllib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from context_engine import ACL, PUBLIC, TRUSTED, Document, Engine, Hit, Settings

HERE = Path(__file__).resolve().parent
TOP_K = 3
HR = ["group:staff", "group:hr"]
READERS = {"visitor": [], "HR": HR, "unrestricted": TRUSTED}
LIMITED = ("visitor", "HR")
SUBTITLES = {
    "visitor": "no principals",
    "HR": " + ".join(HR),
    "unrestricted": "TRUSTED",
}
AREAS = {
    "public": ("public", "green"),
    "company": ("company", "cyan"),
    "hr": ("hr", "yellow"),
    "finance": ("finance", "magenta"),
    "engineering": ("eng.", "blue"),
    "security": ("sec.", "bright_black"),
    "board": ("board", "red"),
}
# A page of the handbook is short: it stays whole. Small batches keep the bar moving.
INGEST = {"chunk_tokens": 2_000, "batch_documents": 6}


@dataclass(frozen=True)
class Answer:
    """One question's hits for each reader, and what filtering after the search leaves for the limited ones."""

    question: str
    hits: Mapping[str, Sequence[Hit]]
    filtered: Mapping[str, Sequence[Hit]]


def read_handbook(folder: Path = HERE / "handbook") -> list[Document]:
    """Read the pages, each with the ACL that acl.toml gives to it or to its area."""
    rules = tomllib.loads((folder / "acl.toml").read_text(encoding="utf-8"))
    documents: list[Document] = []
    for path in sorted(folder.rglob("*.md")):
        page, area = path.relative_to(folder).as_posix(), path.parent.name
        rule = rules.get(page, rules[area])
        allow = [PUBLIC] if rule.get("public") else rule["allow"]
        text = path.read_text(encoding="utf-8")
        documents.append(
            Document(
                text=text,
                name=text.partition("\n")[0].removeprefix("# "),
                external_id=page,
                source="handbook",
                acl=ACL(allow, rule.get("require", []), rule.get("deny", [])),
                metadata={"area": area},
            )
        )
    return documents


def read_questions() -> list[str]:
    """Read the questions."""
    stored = tomllib.loads((HERE / "questions.toml").read_text(encoding="utf-8"))
    return [entry["text"] for entry in stored["question"]]


def ingest(engine: Engine, documents: Sequence[Document], console: Console, what: str) -> None:
    """Store the documents behind a progress bar."""
    with Progress(console=console) as bar:
        task = bar.add_task(f"{what:<26}", total=len(documents))
        report = engine.ingest(documents, lambda done, _: bar.update(task, completed=done))
    for outcome in report.failed:
        console.print(f"failed: {outcome.external_id}: {outcome.error}", style="red")


def ask(engine: Engine, questions: Iterable[str]) -> list[Answer]:
    """Ask each question as each reader; and once more the way that filters too late."""
    readable = {
        reader: {document.id for document in engine.list_documents(principals=READERS[reader])} for reader in LIMITED
    }
    answers: list[Answer] = []
    for question in questions:
        hits = {
            reader: engine.search(question, principals=principals, top_k=TOP_K).hits
            for reader, principals in READERS.items()
        }
        filtered = {
            reader: [hit for hit in hits["unrestricted"] if hit.document.id in readable[reader]] for reader in LIMITED
        }
        answers.append(Answer(question, hits, filtered))
    return answers


def same_as_alone(alone: Engine, answers: Iterable[Answer]) -> bool:
    """Tell whether a database with HR's documents alone gives HR the same ids, order and scores."""
    return all(
        [(hit.chunk_id, hit.score) for hit in answer.hits["HR"]]
        == [(hit.chunk_id, hit.score) for hit in alone.search(answer.question, principals=TRUSTED, top_k=TOP_K).hits]
        for answer in answers
    )


def cell(hits: Sequence[Hit], place: int, style: str = "") -> Text:
    """Write the hit at this place, if there is one: where it is from, and its name."""
    if place >= len(hits):
        return Text()
    document = hits[place].document
    area, colour = AREAS[document.metadata["area"]]
    return Text.assemble((f"{area:<8}", colour), (document.name, style))


def kept_words(kept: Sequence[Hit]) -> Text:
    """Say how many places the filter leaves."""
    style = "dim" if len(kept) == TOP_K else "yellow" if kept else "bold red"
    return Text(f"filter afterwards: {len(kept)} of {TOP_K}", style)


def show(answer: Answer, number: int, console: Console) -> None:
    """Print one question with its answers side by side."""
    console.print(Text(f"{number}. {answer.question}", "bold"))
    table = Table(box=box.SIMPLE_HEAD, expand=True, show_edge=False)
    for reader in READERS:
        heading = Text.assemble((reader, "bold"), (f"  {SUBTITLES[reader]}", "dim"))
        table.add_column(heading, ratio=1, no_wrap=True, overflow="ellipsis")
    for place in range(TOP_K):
        table.add_row(*(cell(answer.hits[reader], place) for reader in READERS))
    table.add_section()
    kept = [answer.filtered[reader] for reader in LIMITED]
    table.add_row(*map(kept_words, kept), Text(f"from these {TOP_K}", "dim"))
    for place in range(max(map(len, kept))):
        table.add_row(*(cell(hits, place, "dim") for hits in kept))
    console.print(table)
    console.print()


def show_counts(answers: Sequence[Answer], same: bool, alone: int, console: Console) -> None:
    """Print what can be counted over all questions."""
    console.print(Text(f"All {len(answers)} questions, {TOP_K} places each", "bold"))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for heading in ("", *LIMITED):
        table.add_column(heading)
    late = ([answer.filtered[reader] for answer in answers] for reader in LIMITED)
    inside = ([answer.hits[reader] for answer in answers] for reader in LIMITED)
    table.add_row("filter after search", *map(counted, late))
    table.add_row("inside the SQL", *map(counted, inside))
    console.print(table)
    console.print()
    console.print(
        f"HR here, and in a database that holds only HR's {alone} documents: same ids, same order, same scores:",
        Text("yes", "bold green") if same else Text("no", "bold red"),
    )


def counted(lists: Sequence[Sequence[Hit]]) -> str:
    """Count the places that are filled, and the questions that are not answered at all."""
    filled, empty = sum(map(len, lists)), sum(not hits for hits in lists)
    return f"{filled}/{TOP_K * len(lists)} places, {empty}/{len(lists)} questions empty"


def run(engine: Engine, alone: Engine, console: Console) -> bool:
    """Fill both databases, ask, and print; returns whether HR's scores are the same in both."""
    documents = read_handbook()
    ingest(engine, documents, console, "the whole handbook")
    answers = ask(engine, read_questions())
    for_hr = {document.external_id for document in engine.list_documents(principals=HR)}
    only_hr = [document for document in documents if document.external_id in for_hr]
    ingest(alone, only_hr, console, "only what HR may read")
    same = same_as_alone(alone, answers)
    console.print()
    for number, answer in enumerate(answers, 1):
        show(answer, number, console)
    show_counts(answers, same, len(only_hr), console)
    return same


@contextmanager
def engines(data_dir: Path | None) -> Generator[tuple[Engine, Engine]]:
    """Open two engines on one embedded server, each with a schema of its own."""
    with tempfile.TemporaryDirectory(prefix="context-engine-demo-") as temporary:
        # As root the server runs as a user of its own, who has to get in.
        Path(temporary).chmod(0o755)
        folder = data_dir or Path(temporary)
        whole, alone = (
            Settings(database_url=None, storage={"schema_name": name}, ingest=INGEST)
            for name in ("handbook", "handbook_for_hr_only")
        )
        with (
            Engine(data_dir=folder, settings=whole) as engine,
            Engine(data_dir=folder, settings=alone) as alone_engine,
        ):
            yield engine, alone_engine


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="keep the database in this folder")
    data_dir = parser.parse_args().data_dir
    console = Console()
    console.print("starting PostgreSQL and loading the model …", style="dim")
    with engines(data_dir) as (engine, alone):
        same = run(engine, alone, console)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
