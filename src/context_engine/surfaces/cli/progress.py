"""Show how far an ingest has come."""

from collections.abc import Generator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from context_engine.surfaces.cli.output import err


class _Rate(ProgressColumn):
    """Documents a second since the start."""

    def render(self, task: Task) -> Text:
        if not task.completed or not task.elapsed:
            return Text("")
        return Text(f"{task.completed / task.elapsed:,.0f}/s")


class _Done(ProgressColumn):
    """How many of how many."""

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text("")
        return Text(f"{task.completed:,.0f} of {task.total:,.0f}")


class IngestBar:
    """The bar of one ingest."""

    def __init__(self, bar: Progress, total: int) -> None:
        self._bar = bar
        self._task = bar.add_task("ingesting", total=total)

    def advance(self, completed: int) -> None:
        """Show how many documents are done, the refused ones included."""
        self._bar.update(self._task, completed=completed)

    def finish(self) -> None:
        """Show that what is left has no count."""
        self._bar.update(self._task, visible=False)
        self._bar.add_task("bringing indexes up to date", total=None)


@contextmanager
def ingest_progress(total: int) -> Generator[IngestBar]:
    """Show a bar while the block runs, on a terminal; it is gone afterwards."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        _Done(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        yield IngestBar(bar, total)
