"""The examples run, and print what they are said to print."""

from __future__ import annotations

import io
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from context_engine import PUBLIC, Document

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def demo() -> Any:
    """The demonstration's own names."""
    return type("Demo", (), runpy.run_path(str(EXAMPLES / "demo.py")))


@pytest.mark.parametrize("width", [100, 120])
def test_demo(demo: Any, new_engine: Any, width: int) -> None:
    whole = new_engine(ingest=demo.INGEST)
    alone = new_engine(ingest=demo.INGEST)
    for _ in range(2):
        console = Console(file=io.StringIO(), width=width)
        assert demo.run(whole, alone, console)
        output = console.file.getvalue()
        assert "same ids, same order, same scores: yes" in output
        assert "failed" not in output
        assert all(len(line) <= width for line in output.splitlines())
        [late] = re.findall(r"filter after search +(\d+)/18 places, \d/6 questions empty +(\d+)/18", output)
        [inside] = re.findall(r"inside the SQL +(\d+)/18 places, 0/6 questions empty +(\d+)/18", output)
        assert inside == ("18", "18")
        assert all(int(few) < int(many) for few, many in zip(late, inside, strict=True))


def test_demo_would_say_no(demo: Any, new_engine: Any) -> None:
    whole, alone = new_engine(ingest=demo.INGEST), new_engine(ingest=demo.INGEST)
    alone.ingest([Document(name="One more", text="A notice on the notice period.", acl=PUBLIC)])
    console = Console(file=io.StringIO(), width=100)
    assert not demo.run(whole, alone, console)
    assert "same scores: no" in console.file.getvalue()


def test_handbook_acls(demo: Any) -> None:
    documents = {document.external_id: document for document in demo.read_handbook()}
    assert len(documents) == 48
    assert documents["engineering/error-codes.md"].acl.allow == [PUBLIC]
    assert documents["hr/larch-consultation-plan.md"].acl.require == ["clearance:larch"]
    assert documents["finance/budget-2026.md"].acl.allow == ["group:finance"]
    assert documents["company/parental-leave.md"].name == "Parental leave"


def test_every_rule_names_a_page_or_an_area() -> None:
    text = (EXAMPLES / "handbook/acl.toml").read_text(encoding="utf-8")
    for name in re.findall(r"^\[\"?([^]\"]+)\"?\]", text, re.M):
        assert (EXAMPLES / "handbook" / name).exists(), name


def test_quickstart(database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_DATABASE_URL", database_url)
    found = runpy.run_path(str(EXAMPLES / "quickstart.py"))
    promised = [line.strip() for line in found["__doc__"].splitlines() if line.startswith("    [")]
    assert capsys.readouterr().out.splitlines() == promised
