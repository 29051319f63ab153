"""Generate the synchronous code from the asynchronous: `python tools/unasync.py`, or `--check` in CI.

Every `_async` folder of the package has a `_sync` twin, made by renaming tokens and dropping `async` and `await`.
"""

import argparse
import io
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "context_engine"
HEADER = "# Generated from {source} by tools/unasync.py: change that file instead.\n"
RENAMED = {
    "_async": "_sync",
    "asyncio": "threading",
    "aclosing": "closing",
    "asynccontextmanager": "contextmanager",
    "enter_async_context": "enter_context",
    "AbstractAsyncContextManager": "AbstractContextManager",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "AsyncConnectionPool": "ConnectionPool",
}
WORDS_IN_TEXT = {"asynchronous": "synchronous", "Asynchronous": "Synchronous"}


def rename(name: str) -> str:
    """Return the synchronous name for an asynchronous one."""
    if name in RENAMED:
        return RENAMED[name]
    return re.sub(r"^async_(?=\w)", "", re.sub(r"^(_?)Async(?=[A-Z])", r"\1", name))


def convert(source: str) -> str:
    """Turn asynchronous source into synchronous source, token by token."""
    pieces: list[str] = []
    position = (1, 0)
    lines = source.splitlines(keepends=True)
    dropping = False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        between = _between(lines, position, token.start)
        position = token.end
        if dropping:
            between, dropping = "", False
        if token.type == tokenize.NAME and token.string in ("async", "await"):
            pieces.append(between)
            dropping = True
            continue
        text = token.string
        if token.type == tokenize.NAME:
            text = rename(text)
        elif token.type == tokenize.STRING and text.startswith(('"""', 'r"""')):
            for old, new in WORDS_IN_TEXT.items():
                text = text.replace(old, new)
        pieces += [between, text]
    return "".join(pieces)


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]] if start[0] <= len(lines) else ""
    middle = lines[start[0] : end[0] - 1]
    last = lines[end[0] - 1][: end[1]] if end[0] <= len(lines) else ""
    return lines[start[0] - 1][start[1] :] + "".join(middle) + last


def generate(folder: Path) -> dict[Path, str]:
    """Convert every file into `folder`, lay it out as everything else is, and return target and text of each."""
    root = PACKAGE.parent.parent
    shutil.copy(root / "pyproject.toml", folder)
    made: dict[Path, Path] = {}
    for source in sorted(PACKAGE.glob("**/_async/*.py")):
        target = source.parent.parent / "_sync" / source.name
        copy = folder / target.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        name = source.relative_to(PACKAGE).as_posix()
        copy.write_text(HEADER.format(source=name) + convert(source.read_text()))
        made[target] = copy
    for command in (["check", "--fix", "--select", "I", "--quiet"], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, str(folder)], check=True)
    return {target: copy.read_text() for target, copy in made.items()}


def main() -> int:
    """Write the generated files, or with `--check` say which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a file is stale")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        texts = generate(Path(folder))
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    orphans = [path for path in PACKAGE.glob("**/_sync/*.py") if path not in texts]
    if check:
        for path in stale + orphans:
            print(f"stale: {path.relative_to(PACKAGE.parent.parent)}; run python tools/unasync.py")
        return 1 if stale or orphans else 0
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(texts[path])
    for path in orphans:
        path.unlink()
    print(f"{len(texts)} files, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
