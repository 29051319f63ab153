"""Text and title of a file's bytes."""

import codecs
import re
from dataclasses import dataclass
from typing import Final

from context_engine.errors import InputError
from context_engine.text.html import html_text

SUPPORTED_SUFFIXES: Final = frozenset(
    {".md", ".markdown", ".html", ".htm", ".xhtml", ".txt", ".text", ".rst"}
)
"""Suffixes to look for in a folder. Any other file that holds text is read as plain text."""

_MARKDOWN = frozenset({".md", ".markdown"})
_HTML = frozenset({".html", ".htm", ".xhtml"})

_MAGIC = (
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"Rar!\x1a", "a RAR archive"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "an SQLite database"),
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
_CONTROLS_ALLOWED = 4
_CONTROLS_SHARE = 50

_DECLARED = re.compile(
    rb"""<(?:meta|\?xml)\b[^>]*?\b(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.I
)
_DECLARED_WITHIN = 2048
# Among Python's codecs are some that are no charset of a web page, and slow.
_CHARSET = re.compile(
    r"utf-8|ascii|iso8859-\d+|cp125\d|cp874|cp932|cp949|koi8-[rut]|mac-(?:roman|cyrillic)|"
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
    suffix = suffix.lower()
    if suffix and not suffix.startswith("."):
        suffix = "." + suffix
    text = _decode(data, html=suffix in _HTML).replace("\r\n", "\n").replace("\r", "\n")
    if suffix in _HTML:
        return Extracted(*html_text(text))
    if suffix in _MARKDOWN:
        return _markdown(text)
    return Extracted(None, text)


def _decode(data: bytes, *, html: bool) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    _refuse_binary(data)
    declared = _declared(data) if html else None
    for encoding in (declared, "utf-8"):
        if encoding:
            try:
                return data.decode(encoding)
            except UnicodeDecodeError:
                pass
    return data.decode("cp1252", "replace")


def _refuse_binary(data: bytes) -> None:
    found = next((what for magic, what in _MAGIC if data.startswith(magic)), None)
    controls = len(data) - len(data.translate(None, _CONTROLS))
    if found is None and controls > _CONTROLS_ALLOWED + len(data) // _CONTROLS_SHARE:
        found = f"binary data ({controls} of {len(data)} bytes are control characters)"
    if found:
        raise InputError(f"found {found}; what can be read is text, Markdown, HTML and JSONL")


def _declared(data: bytes) -> str | None:
    match = _DECLARED.search(data, 0, _DECLARED_WITHIN)
    if not match:
        return None
    try:
        name = codecs.lookup(match[1].decode("ascii", "replace")).name
    except LookupError:
        return None
    # As browsers do: who declares Latin-1 writes Windows-1252.
    if name in ("iso8859-1", "ascii"):
        return "cp1252"
    return name if _CHARSET.fullmatch(name) else None


def _markdown(text: str) -> Extracted:
    front = _FRONT_MATTER.match(text)
    title = None
    if front:
        text = text[front.end() :].lstrip("\n")
        title = _front_title(front[2])
    return Extracted(title or _first_heading(text), text)


def _front_title(front: str) -> str | None:
    match = _FRONT_TITLE.search(front)
    title = match[1].strip() if match else ""
    if len(title) > 1 and title[0] == title[-1] and title[0] in "\"'":
        title = title[1:-1].strip()
    # A block scalar continues on the lines below.
    return None if not title or title[0] in "|>" else title


def _first_heading(text: str) -> str | None:
    match = _HEADING.search(_FENCED.sub("", text))
    return _CLOSING.sub("", match[1].strip()).strip() or None if match else None
