"""Lay out help texts: paragraphs are filled by the terminal, examples keep a line each."""

import re
from typing import Final

_LINE_BREAK: Final = re.compile(r"(?<!\n)\n(?!\n)")


def paragraphs(text: str) -> str:
    """Join the lines of each paragraph."""
    return _LINE_BREAK.sub(" ", text.strip())


def examples(*commands: str, after: str = "") -> str:
    """List commands to copy, and what is to be said after them."""
    lines = [f"[cyan]context-engine {command}[/cyan]" for command in commands]
    title = "Examples:" if len(commands) > 1 else "Example:"
    return "\n\n".join([title, *lines, *([f"\n{paragraphs(after)}"] if after else [])])
