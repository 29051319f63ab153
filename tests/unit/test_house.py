"""The house rules that a machine can check."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import context_engine
from context_engine import errors

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "context_engine"
SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "ruff", "format", "--check", "--quiet", "."],
        ["-m", "ruff", "check", "--quiet", "."],
        ["tools/unasync.py", "--check"],
        ["-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"],
    ],
    ids=["format", "lint", "generated", "imports"],
)
def test_the_checker_has_nothing_to_say(command: list[str]) -> None:
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_is_over_500_lines() -> None:
    long = {path.name: lines for path in SOURCES if (lines := len(path.read_text().splitlines())) > 500}
    assert not long


def test_no_function_is_over_60_lines() -> None:
    long = [
        f"{path.name}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > 60
    ]
    assert not long


def test_no_caller_or_acl_has_none_as_its_default() -> None:
    found = [
        f"{path.name}:{node.lineno} {argument.arg}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if argument.arg in ("principals", "acl", "scope") and default is not None
    ]
    assert not found


def test_every_error_has_its_own_code_and_is_public() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ContextEngineError)
    ]
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert {kind.__name__ for kind in kinds} <= set(context_engine.__all__)


def test_all_is_complete() -> None:
    public = {
        name
        for name, value in vars(context_engine).items()
        if not name.startswith("_") and not isinstance(value, type(sys))
    }
    assert public == set(context_engine.__all__)
