"""Text and title of a file's bytes."""

import codecs
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from context_engine.errors import InputError
from context_engine.text.html import html_text

_MARKDOWN = frozenset({".md", ".markdown"})
_HTML = frozenset({".html", ".htm", ".xhtml"})
SUPPORTED_SUFFIXES: Final = _MARKDOWN | _HTML | {".txt", ".text", ".rst"}
"""Suffixes to look for in a folder. Any other file that holds text is read as plain text."""

_MAGIC = (
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
)
# UTF-32 LE begins like UTF-16 LE.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = bytes({*range(9), *range(14, 27), *range(28, 32), 127})

_DECLARED = re.compile(rb"""<(?:meta|\?xml)\b[^>]*?\b(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.I)
# Among Python's codecs are some that are no charset of a web page, and slow.
_CHARSET = re.compile(
    r"utf-8|iso8859-\d+|cp125\d|cp874|cp932|cp949|koi8-[rut]|mac-(?:roman|cyrillic)|"
    r"shift_jis|euc_jp|euc_kr|iso2022_jp|gb2312|gbk|gb18030|big5|tis-620"
)

_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n(.*?)^\1[ \t]*(?:\n|\Z)", re.S | re.M)
_FRONT_TITLE = re.compile(r"^title[ \t]*[:=](.+)$", re.M | re.I)
_FENCED = re.compile(r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1|\Z)", re.S | re.M)
_HEADING = re.compile(r"^ {0,3}#[ \t](.+)$", re.M)
_CLOSING = re.compile(r"(?:^|[ \t])#+$")


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a file says: its title, if it has one, and its text with lines ended by LF."""

    title: str | None
    text: str


def extract(data: bytes, suffix: str) -> Extracted:
    """Read Markdown, HTML or plain text, by the suffix of the file's name.

    Raises:
        InputError: the data is not text, or HTML nested beyond reason.
    """
    suffix = "." + suffix.lower().removeprefix(".")
    text = _decode(data, html=suffix in _HTML).replace("\r\n", "\n").replace("\r", "\n")
    if suffix in _HTML:
        return Extracted(*html_text(text))
    return _markdown(text) if suffix in _MARKDOWN else Extracted(None, text)


def _decode(data: bytes, *, html: bool) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    _refuse_binary(data)
    for encoding in (_declared(data) if html else "utf-8", "utf-8"):
        with suppress(UnicodeDecodeError):
            return data.decode(encoding)
    return data.decode("cp1252", "replace")


def _refuse_binary(data: bytes) -> None:
    found = next((what for magic, what in _MAGIC if data.startswith(magic)), None)
    controls = len(data) - len(data.translate(None, _CONTROLS))
    if found is None and controls > 4 + len(data) // 50:
        found = f"binary data ({controls} of {len(data)} bytes are control characters)"
    if found:
        raise InputError(f"found {found}; what can be read is text, Markdown, HTML and JSONL")


def _declared(data: bytes) -> str:
    match = _DECLARED.search(data, 0, 2048)
    try:
        name = codecs.lookup(match[1].decode("ascii", "replace")).name if match else "utf-8"
    except LookupError:
        return "utf-8"
    # As browsers do: who declares Latin-1 writes Windows-1252.
    if name in ("iso8859-1", "ascii"):
        return "cp1252"
    return name if _CHARSET.fullmatch(name) else "utf-8"


def _markdown(text: str) -> Extracted:
    title = ""
    if front := _FRONT_MATTER.match(text):
        text = text[front.end() :].lstrip("\n")
        if match := _FRONT_TITLE.search(front[2]):
            title = match[1].strip()
        if len(title) > 1 and title[0] == title[-1] and title[0] in "\"'":
            title = title[1:-1].strip()
        # A block scalar continues on the lines below.
        if title.startswith(("|", ">")):
            title = ""
    if not title and (heading := _HEADING.search(_FENCED.sub("", text))):
        title = _CLOSING.sub("", heading[1].strip()).strip()
    return Extracted(title or None, text)
