import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import InputError
from context_engine.text.extract import SUPPORTED_SUFFIXES, Extracted, extract


class TestPlainText:
    @pytest.mark.parametrize(
        ("data", "text"),
        [
            ("Céüse".encode(), "Céüse"),
            (codecs.BOM_UTF8 + "Céüse".encode(), "Céüse"),
            (codecs.BOM_UTF16_LE + "Céüse".encode("utf-16-le"), "Céüse"),
            (codecs.BOM_UTF16_BE + "Céüse".encode("utf-16-be"), "Céüse"),
            (codecs.BOM_UTF32_LE + "Céüse".encode("utf-32-le"), "Céüse"),
            (b"C\xe9\xfcse \x93quoted\x94", "Céüse “quoted”"),
            (b"a\r\nb\rc", "a\nb\nc"),
            (b"one \x00 in a text", "one \x00 in a text"),
            (b"", ""),
        ],
    )
    def test_encodings(self, data, text):
        assert extract(data, ".txt") == Extracted(None, text)

    @pytest.mark.parametrize("suffix", [".TXT", "txt", ".log", ""])
    def test_what_is_not_known_is_plain_text(self, suffix):
        assert extract(b"# no title", suffix) == Extracted(None, "# no title")

    @pytest.mark.parametrize(
        ("data", "what"),
        [
            (b"%PDF-1.7\n", "a PDF"),
            (b"PK\x03\x04rest", "a ZIP archive or an Office document"),
            (b"\x89PNG\r\n", "a PNG image"),
            (bytes(100), "binary data"),
            (bytes(range(256)) * 4, "binary data"),
        ],
    )
    @pytest.mark.parametrize("suffix", [".txt", ".md", ".html"])
    def test_binary_data_is_refused(self, data, what, suffix):
        with pytest.raises(InputError, match=f"found {what}.*text, Markdown, HTML and JSONL"):
            extract(data, suffix)

    @given(st.binary(), st.sampled_from(sorted(SUPPORTED_SUFFIXES)))
    def test_any_data_is_read_or_refused(self, data, suffix):
        try:
            extracted = extract(data, suffix)
        except InputError:
            return
        assert extracted.text.encode().decode() == extracted.text


class TestMarkdown:
    @pytest.mark.parametrize(
        ("source", "title", "text"),
        [
            ("# Head\n\nBody", "Head", "# Head\n\nBody"),
            ("intro\n\n# Head #\n", "Head", "intro\n\n# Head #\n"),
            ("## Second\n", None, "## Second\n"),
            ("---\ntitle: Front\ntags: [a]\n---\n\n# Head\n", "Front", "# Head\n"),
            ("---\r\ntitle: \"A: 'b'\"\r\n---\r\nBody", "A: 'b'", "Body"),
            ('+++\ntitle = "Toml"\n+++\nBody', "Toml", "Body"),
            ("---\ntitle: >\n  folded\n---\n# Head", "Head", "# Head"),
            ("---\ntitle:\n---\n# Head", "Head", "# Head"),
            ("---\n\nA rule, no front matter", None, "---\n\nA rule, no front matter"),
            ("```sh\n# comment\n```\n# Head", "Head", "```sh\n# comment\n```\n# Head"),
            ("no heading", None, "no heading"),
        ],
    )
    def test_title_and_front_matter(self, source, title, text):
        assert extract(source.encode(), ".md") == Extracted(title, text)


class TestHtml:
    @pytest.mark.parametrize(
        ("source", "text"),
        [
            ("<p>One <b>bo</b>ld\n  line<p>Two", "One bold line\n\nTwo"),
            ("<ul><li>a<li>b</ul>", "a\nb"),
            ("<table><tr><td>1<td>2<tr><td>3</table>", "1 2\n3"),
            ("a<br>b", "a\nb"),
            ("&lt;tag&gt; &eacute;&nbsp;&#x6771;", "<tag> é 東"),
            ("<pre>\ndef f():\n    return 1\n\nx</pre>y", "def f():\n    return 1\n\nx\n\ny"),
            (
                "<nav>n</nav><script>s</script><style>s</style><noscript>n</noscript>x<!-- c -->",
                "x",
            ),
            ("<template><p>t</template><svg><title>s</title></svg>x", "x"),
            ("", ""),
        ],
    )
    def test_text(self, source, text):
        assert extract(source.encode(), ".html").text == text

    @pytest.mark.parametrize(
        ("source", "title"),
        [
            ("<title>A &amp;\n B</title><h1>C</h1>", "A & B"),
            ("<title> </title><h1>C <i>d</i></h1>", "C d"),
            ("<svg><title>s</title></svg>", None),
            ("text", None),
        ],
    )
    def test_title(self, source, title):
        assert extract(source.encode(), ".htm").title == title

    @pytest.mark.parametrize(
        ("data", "text"),
        [
            (b'<meta charset="shift_jis">' + "東京".encode("shift_jis"), "東京"),
            (
                b"<meta http-equiv=x content='text/html; charset=koi8-r'>" + "да".encode("koi8-r"),
                "да",
            ),
            (b'<?xml version="1.0" encoding="ISO-8859-1"?><p>\x93\xe9\x94', "“é”"),
            (b'<meta charset="unicode_escape">\\x41', "\\x41"),
            (b'<meta charset="nonsense">\xe9', "é"),
            (b'<meta charset="utf-8">\xe9', "é"),
            ("<p>é".encode(), "é"),
            (codecs.BOM_UTF16_LE + "<p>é".encode("utf-16-le"), "é"),
        ],
    )
    def test_charset(self, data, text):
        assert extract(data, ".html").text == text

    def test_nesting_beyond_reason_is_refused_at_once(self):
        with pytest.raises(InputError, match="inside each other"):
            extract(b"<div>" * 200_000, ".html")

    def test_deep_nesting_is_read(self):
        assert extract(b"<div>" * 4_000 + b"x", ".html").text == "x"

    def test_many_elements_are_no_nesting(self):
        text = extract(b"<div><p>a<br><span>b</span></div>" * 6_000, ".html").text
        assert text.count("a\nb") == 6_000
