"""The readable text of an HTML page."""

import re
from collections import Counter
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from context_engine.errors import InputError

_DROPPED = frozenset(
    {
        "script",
        "style",
        "nav",
        "template",
        "noscript",
        "head",
        "svg",
        "iframe",
        "object",
        "-comment",
    }
)
_PARAGRAPHS = frozenset(
    """address article aside blockquote body dl details dialog fieldset figure footer form h1 h2 h3 h4 h5 h6
    header hr main ol p pre section table ul""".split()
)
_LINES = frozenset(
    "br caption dd div dt figcaption legend li option optgroup select summary tbody tfoot thead tr".split()
)
_CELLS = frozenset({"td", "th"})
_PREFORMATTED = frozenset({"pre", "textarea"})

_SEPARATORS = ("", " ", "\n", "\n\n")
_SPACE, _LINE, _PARAGRAPH = 1, 2, 3

# The parser takes time quadratic in the depth: 1 MB of nothing but <div> took two minutes.
_MAX_DEPTH = 5_000
_TAG = re.compile(
    r"<!--.*?(?:-->|\Z) | <(script|style|textarea|title)\b.*?(?:</\1|\Z) | <(/?)([a-z][^\s/>]*)",
    re.S | re.I | re.X,
)
_NEVER_NESTED = frozenset(
    """a area base body br button col colgroup dd dt embed h1 h2 h3 h4 h5 h6 head hr html img input li link meta
    option p param rp rt source tbody td tfoot th thead tr track wbr""".split()
)


def html_text(markup: str) -> tuple[str | None, str]:
    """Return the title (of the head, else the first h1) and the text, with a line or more a block.

    Raises:
        InputError: blocks are nested too deep to be a page that people read.
    """
    _refuse_deep(markup)
    tree = LexborHTMLParser(markup)
    named = (tree.css_first("head > title"), tree.css_first("h1"))
    titles = (" ".join(node.text().split()) for node in named if node)
    title = next((title for title in titles if title), None)
    return title, _read(tree.body) if tree.body else ""


class _Page:
    """Text under construction, and the separator due before what comes next."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._due = 0

    def separate(self, separator: int) -> None:
        self._due = max(self._due, separator)

    def write(self, text: str) -> None:
        words = text.split()
        if not words or text[0].isspace():
            self.separate(_SPACE if text else 0)
        if words:
            self.write_as_is(" ".join(words))
            self.separate(_SPACE if text[-1].isspace() else 0)

    def write_as_is(self, text: str) -> None:
        if self.parts:
            self.parts.append(_SEPARATORS[self._due])
        self.parts.append(text)
        self._due = 0


def _read(body: LexborNode) -> str:
    """Walk the tree with a stack of its own: pages can nest deeper than Python calls."""
    page = _Page()
    stack: list[int | tuple[LexborNode, bool]] = [(body, False)]
    while stack:
        top = stack.pop()
        if isinstance(top, int):
            page.separate(top)
            continue
        node, preformatted = top
        if node.is_text_node:
            text = node.text_content or ""
            if preformatted and text.strip():
                page.write_as_is(text.strip("\n"))
            else:
                page.write(text)
        elif node.tag not in _DROPPED:
            separator = _separator(node.tag)
            page.separate(separator)
            stack.append(separator)
            preformatted = preformatted or node.tag in _PREFORMATTED
            stack += [(child, preformatted) for child in reversed(list(_children(node)))]
    return "".join(page.parts)


def _children(node: LexborNode) -> Iterator[LexborNode]:
    child = node.child
    while child is not None:
        yield child
        child = child.next


def _separator(tag: str | None) -> int:
    if tag in _PARAGRAPHS:
        return _PARAGRAPH
    if tag in _LINES:
        return _LINE
    return _SPACE if tag in _CELLS else 0


def _refuse_deep(markup: str) -> None:
    depth = 0
    unclosed: Counter[str] = Counter()
    for match in _TAG.finditer(markup):
        name = (match[3] or "").lower()
        if not name or name in _NEVER_NESTED:
            continue
        if not match[2]:
            unclosed[name] += 1
            depth += 1
        elif unclosed[name]:
            unclosed[name] -= 1
            depth -= 1
        if depth > _MAX_DEPTH:
            raise InputError(f"found HTML with more than {_MAX_DEPTH} elements inside each other")
