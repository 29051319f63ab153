"""The readable text of an HTML page."""

import re
from collections import Counter

from selectolax.lexbor import LexborHTMLParser, LexborNode

from context_engine.errors import InputError

_DROPPED = frozenset("script style nav template noscript head svg iframe object -comment".split())
_PREFORMATTED = frozenset({"pre", "textarea"})

_SEPARATORS = ("", " ", "\n", "\n\n")
_SPACE, _LINE, _PARAGRAPH = 1, 2, 3
_AROUND = {
    **dict.fromkeys(("td", "th"), _SPACE),
    **dict.fromkeys(
        "br caption dd div dt figcaption legend li option optgroup select summary tbody tfoot thead tr".split(), _LINE
    ),
    **dict.fromkeys(
        """address article aside blockquote body dl details dialog fieldset figure footer form h1 h2 h3 h4 h5 h6
        header hr main ol p pre section table ul""".split(),
        _PARAGRAPH,
    ),
}

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
    return next(filter(None, titles), None), _read(tree.body) if tree.body else ""


class _Page:
    """Text under construction, and the separator due before what comes next."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._due = 0

    def separate(self, separator: int) -> None:
        self._due = max(self._due, separator)

    def write(self, text: str) -> None:
        if self.parts:
            self.parts.append(_SEPARATORS[self._due])
        self.parts.append(text)
        self._due = 0

    def flow(self, text: str) -> None:
        if text[:1].isspace():
            self.separate(_SPACE)
        if words := text.split():
            self.write(" ".join(words))
            if text[-1].isspace():
                self.separate(_SPACE)


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
                page.write(text.strip("\n"))
            else:
                page.flow(text)
        elif node.tag not in _DROPPED:
            separator = _AROUND.get(node.tag or "", 0)
            page.separate(separator)
            stack.append(separator)
            preformatted = preformatted or node.tag in _PREFORMATTED
            stack += [(child, preformatted) for child in reversed(list(node.iter(include_text=True)))]
    return "".join(page.parts)


def _refuse_deep(markup: str) -> None:
    depth = 0
    unclosed: Counter[str] = Counter()
    for match in _TAG.finditer(markup):
        name = (match[3] or "").lower()
        if name and name not in _NEVER_NESTED and (not match[2] or unclosed[name]):
            step = -1 if match[2] else 1
            unclosed[name] += step
            depth += step
            if depth > _MAX_DEPTH:
                raise InputError(f"found HTML with more than {_MAX_DEPTH} elements inside each other")
