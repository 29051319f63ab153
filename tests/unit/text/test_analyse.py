import re
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import ConfigError
from context_engine.settings import AnalyserSettings
from context_engine.text import analyse as module
from context_engine.text.analyse import ANALYSER_VERSION, Analyser, Word

ENGLISH = Analyser()
SIMPLE = Analyser("simple")

# Any string a caller can hold, and strings made of what the analyser treats specially.
SPECIAL = st.text(
    st.sampled_from([*"aAbZéßİ1٣½ '’ʼ-–_./\\:@+&#=~,™", *"漢東タ゛ーがภาำ가나ᄀ", "\u0301", "\u200d", "\ud800"])
)
ANY_TEXT = st.text(st.characters()) | SPECIAL


def lexemes(text, analyser=ENGLISH):
    return set(analyser.analyse(text).positions)


def asked(text, analyser=ENGLISH):
    return {lexeme for word in analyser.words(text) for lexeme, _ in word.lexemes}


def finds(query, document, analyser=ENGLISH):
    """Whether the document holds all that the query asks for."""
    wanted = asked(query, analyser)
    return bool(wanted) and wanted <= lexemes(document, analyser)


def meets(query, document, analyser=ENGLISH):
    """Whether the two share the whole word, not only parts."""
    [word] = analyser.words(query)
    whole = word.joined[:1] or (word.lexemes[0][0],)
    return whole[0] in lexemes(document, analyser)


class TestWords:
    def test_words_are_folded_and_stemmed(self):
        assert ENGLISH.words("Running Queries") == [
            Word("running", (("run", 0),), 1, False),
            Word("queries", (("queri", 0),), 1, False),
        ]

    def test_simple_keeps_the_word(self):
        assert asked("Running", SIMPLE) == {"running"}

    def test_stop_words_take_a_position_and_nothing_else(self):
        analysis = ENGLISH.analyse("the art of the deal")
        assert analysis.positions == {"art": [2], "deal": [5]}
        assert analysis.length == 2
        assert ENGLISH.words("The") == [Word("the", (), 1, True)]

    def test_own_stop_words_are_folded_like_the_text(self):
        assert lexemes("une ÉTÉ don't", Analyser("simple", frozenset({"Été", "don’t"}))) == {"une"}

    def test_languages_have_stop_words_of_their_own_or_none(self):
        assert "the" in lexemes("the", SIMPLE)
        assert Analyser("german").analyse("der Hund für über").positions == {"hund": [2]}
        assert Analyser("french").analyse("l'été où l’avion").length == 2
        assert Analyser("finnish").analyse("ja koira").length == 2

    def test_positions_ascend_from_one(self):
        assert ENGLISH.analyse("dog cat dog").positions == {"dog": [1, 3], "cat": [2]}

    @pytest.mark.parametrize(
        ("text", "surface"),
        [
            ("What's", "what"),
            ("dogs'", "dogs"),
            ("don't", "dont"),
            ("DON’T", "dont"),
            ("п’ять", "пять"),
        ],
    )
    def test_apostrophes(self, text, surface):
        assert [word.surface for word in ENGLISH.words(text)] == [surface]

    def test_elision_parts_words_where_the_language_has_it(self):
        french = Analyser("french")
        assert finds("avion", "l’avion", french)
        assert meets("lavion", "l'avion", french)
        assert not finds("avion", "l'avion")

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("Straße", "STRASSE"),
            ("Ærø", "aero"),
            ("Łódź", "lodz"),
            ("İstanbul", "istanbul"),
            ("ﬁnance", "finance"),
            ("Ａｐｐ", "app"),
            ("ｶﾞｷﾞ", "ガギ"),
            ("infor\u00admation", "information"),
            ("می\u200cخواهم", "میخواهم"),
            ("Debian™", "debian"),
            ("e\u0301te\u0301", "été"),
        ],
    )
    def test_spellings_of_one_word(self, one, other):
        assert asked(one) == asked(other) == lexemes(one) == lexemes(other)

    def test_vowel_signs_and_the_cyrillic_short_i_stay(self):
        assert lexemes("हिन्दी", SIMPLE) == {"हिन्दी"}
        assert lexemes("йод", SIMPLE) == lexemes("и\u0306од", SIMPLE) == {"йод"}
        assert lexemes("ёлка", SIMPLE) == {"елка"}

    @pytest.mark.parametrize("text", ["", " \n\t", "😀", "👩‍👩‍👧 🇩🇪", "!? … -- ++ #", "\x00", "\ud800", "\u0301"])
    def test_nothing_to_find(self, text):
        assert ENGLISH.analyse(text).positions == {}
        assert ENGLISH.analyse(text).length == 0
        assert ENGLISH.words(text) == []


class TestCompounds:
    @pytest.mark.parametrize(
        ("text", "positions", "length"),
        [
            ("AX-4410-B", {"ax4410b": [1], "ax": [1], "4410": [2], "b": [3]}, 3),
            ("state-of-the-art", {"stateoftheart": [1], "state": [1], "art": [4]}, 2),
            ("R&D", {"rd": [1], "r": [1], "d": [2]}, 2),
            ("and/or", {"andor": [1]}, 0),
            ("1.23", {"1.23": [1], "1": [1], "23": [2]}, 2),
            ("1,000", {"1.000": [1], "1": [1], "000": [2]}, 2),
            ("C++", {"c++": [1]}, 1),
            ("C#", {"c#": [1]}, 1),
            (".NET", {"net": [1]}, 1),
            ("C++17", {"c++": [1], "17": [2]}, 2),
            ("libstdc++6", {"libstdc++": [1], "libstdc": [1], "6": [2]}, 2),
            ("dog--cat", {"dog": [1], "cat": [2]}, 2),
            ("__init__", {"init": [1]}, 1),
        ],
    )
    def test_parts_and_whole(self, text, positions, length):
        analysis = ENGLISH.analyse(text)
        assert analysis.positions == positions
        assert analysis.length == length

    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("XFontsKapl", ["x", "fonts", "kapl"]),
            ("parseHTTPResponse", ["parse", "http", "response"]),
            ("iPhone12Pro", ["i", "phone12", "pro"]),
            ("K8M800", ["k8m800"]),
            ("FAT16", ["fat16"]),
            ("utf8", ["utf8"]),
            ("ALLCAPS", ["allcaps"]),
            ("URLs", ["urls"]),
            ("ÉtéHiver", ["ete", "hiver"]),
        ],
    )
    def test_camel_case(self, text, parts):
        [word] = SIMPLE.words(text)
        assert [lexeme for lexeme, _ in word.lexemes if lexeme not in word.joined] == parts
        assert word.surface == "".join(parts)
        assert word.span == len(parts)

    def test_spellings_of_one_code_meet(self):
        spellings = [
            "AX4410B",
            "AX-4410-B",
            "ax_4410_b",
            "AX.4410/b",
            "Ax‑4410‐B",
            "ＡＸ－４４１０－Ｂ",
        ]
        for one in spellings:
            for other in spellings:
                assert meets(one, other), (one, other)

    def test_a_joined_whole_is_stemmed_like_the_word_it_looks_like(self):
        assert meets("openoffice", "OpenOffice")
        assert meets("fontsgfsgazis", "fonts-gfs-gazis")

    def test_digits_do_not_run_together(self):
        assert not meets("1012.3", "10.1.2.3")
        assert not meets("12.3", "1.23")
        assert meets("2024-01-02", "2024/01/02")

    def test_each_step_of_a_path_is_found_whole(self):
        path = "src/context_engine/text/fooBar.py"
        for query in ("context_engine", "contextengine", "fooBar.py", "foobar", "foobarpy", path):
            assert meets(query, path), query

    def test_a_word_says_which_of_its_lexemes_join_others(self):
        [word] = ENGLISH.words("lib/FooBar.png")
        assert word.joined[0] == word.surface == "libfoobarpng"
        assert set(word.joined[1:]) == {"foobarpng", "foobar"}
        assert word.span == 4

    def test_a_very_long_path_is_joined_at_its_end_only(self):
        path = "/".join(f"folder{number}" for number in range(40)) + "/last.py"
        [word] = ENGLISH.words(path)
        assert "lastpi" in word.joined
        assert all(len(lexeme) < 64 for lexeme, _ in word.lexemes)
        assert len(word.surface) < 128
        assert meets("last.py", path)


class TestScriptsWithoutSpaces:
    def test_pairs_and_single_han(self):
        analysis = ENGLISH.analyse("東京へ")
        assert analysis.positions == {"東京": [1], "東": [1], "京へ": [2], "京": [2]}
        assert analysis.length == 2

    def test_a_question_is_not_widened_to_single_characters(self):
        assert asked("東京") == {"東京"}
        assert asked("東") == {"東"}

    def test_latin_is_cut_apart(self):
        assert [word.surface for word in ENGLISH.words("東京Towerへ")] == ["東京", "tower", "へ"]

    def test_hangul_has_pairs_and_the_word(self):
        [word] = ENGLISH.words("데이터")
        assert word.lexemes == (("데이터", 0), ("데이", 0), ("이터", 1))
        assert word.joined == ("데이터",)
        assert finds("API", "API를 쓰다")
        assert lexemes(unicodedata.normalize("NFD", "데이터")) == lexemes("데이터")

    def test_marks_stay_on_their_consonant(self):
        for lexeme, _ in ENGLISH.words("นิดเดียว")[0].lexemes:
            assert not unicodedata.combining(lexeme[0])
            assert unicodedata.category(lexeme[0]) != "Mn"


class TestProperties:
    @given(ANY_TEXT)
    def test_any_text_gives_sound_lexemes(self, text):
        for analyser in (ENGLISH, SIMPLE):
            analysis = analyser.analyse(text)
            assert 0 <= analysis.length <= sum(map(len, analysis.positions.values()))
            for lexeme, positions in analysis.positions.items():
                assert lexeme and len(lexeme.encode()) <= 500
                assert not re.search(r"[\s\x00]", lexeme)
                assert positions == sorted(set(positions)) and positions[0] >= 1

    @given(ANY_TEXT)
    def test_words_and_analysis_agree(self, text):
        found: dict[str, set[int]] = {}
        start = 1
        for word in ENGLISH.words(text):
            assert word.surface and word.span >= 1
            assert word.stop == (not word.lexemes)
            assert set(word.joined) <= {lexeme for lexeme, _ in word.lexemes}
            for lexeme, offset in word.lexemes:
                assert 0 <= offset < word.span
                found.setdefault(lexeme, set()).add(start + offset)
            start += word.span
        positions = ENGLISH.analyse(text).positions
        assert all(places <= set(positions[lexeme]) for lexeme, places in found.items())

    @given(ANY_TEXT)
    def test_the_memo_changes_nothing(self, text):
        fresh = Analyser()
        assert fresh.analyse(text) == fresh.analyse(text) == ENGLISH.analyse(text)
        assert fresh.words(text) == fresh.words(text) == ENGLISH.words(text)

    @given(ANY_TEXT, ANY_TEXT)
    def test_a_space_parts_texts(self, one, other):
        both = ENGLISH.analyse(f"{one} {other}")
        first, second = ENGLISH.analyse(one), ENGLISH.analyse(other)
        assert both.length == first.length + second.length
        assert both.positions.keys() == first.positions.keys() | second.positions.keys()

    @given(ANY_TEXT)
    def test_normal_forms_are_one(self, text):
        composed = SIMPLE.analyse(unicodedata.normalize("NFC", text))
        assert SIMPLE.analyse(unicodedata.normalize("NFD", text)) == composed

    def test_every_letter_digit_and_mark(self):
        letters = [chr(code) for code in (*range(0x3400), *range(0xA000, 0xAC00), *range(0xF900, 0x20000))]
        text = " ".join(letter for letter in letters if unicodedata.category(letter)[0] in "LNM")
        unsound = re.compile(r"[\s\x00\ud800-\udfff]|^$")
        assert not [lexeme for lexeme in SIMPLE.analyse(text).positions if unsound.search(lexeme)]


class TestSize:
    def test_a_full_memo_starts_again(self, monkeypatch):
        monkeypatch.setattr(module, "_MEMO_ENTRIES", 10)
        analyser = Analyser("simple")
        text = " ".join(f"word{number}" for number in range(95))
        assert analyser.analyse(text).length == 95
        assert analyser.analyse(text) == SIMPLE.analyse(text)

    @pytest.mark.parametrize("unit", ["a", "a.", "1,", "aB", "a'", "a+", "漢字", "ก\u0e31", "é", "a\u0301", "가"])
    def test_calls_grow_with_the_text_and_no_faster(self, unit):
        def calls(size):
            analyser = Analyser()
            text = unit * size
            seen = 0

            def count(frame, event, argument):
                nonlocal seen
                seen += event in ("call", "c_call")

            sys.setprofile(count)
            try:
                analyser.analyse(text)
            finally:
                sys.setprofile(None)
            return seen

        calls(10)
        assert calls(8_000) <= 2.5 * calls(4_000) + 100


class TestSetup:
    def test_an_unknown_language_is_refused_with_the_known_ones(self):
        with pytest.raises(ConfigError, match="'klingon'.*simple.*english"):
            Analyser("klingon")

    def test_the_fingerprint_names_version_and_language(self):
        assert re.fullmatch(rf"{ANALYSER_VERSION}:english:snowball-[\d.]+", ENGLISH.fingerprint)
        assert ENGLISH.fingerprint != SIMPLE.fingerprint

    def test_the_fingerprint_tells_of_own_stop_words(self):
        own = Analyser.of(AnalyserSettings(stopwords=["report", "The"]))
        none = Analyser.of(AnalyserSettings(stopwords="none"))
        assert len({ENGLISH.fingerprint, own.fingerprint, none.fingerprint}) == 3
        assert Analyser.of(AnalyserSettings()).fingerprint == ENGLISH.fingerprint
        assert Analyser.of(AnalyserSettings(stopwords=["the", "report"])).fingerprint == own.fingerprint
        assert own.analyse("the report of a team").length == 3
        assert none.analyse("the report of a team").length == 5

    def test_other_processes_give_the_same(self):
        text = "AX-4410-B 東京 " + "x" * 200
        code = "from context_engine.text.analyse import Analyser; import sys; print(Analyser().analyse(sys.argv[1]))"
        outputs = {
            subprocess.run(
                [sys.executable, "-c", code, text],
                env={
                    "PYTHONHASHSEED": seed,
                    "PYTHONPATH": ":".join(sys.path),
                    "PYTHONIOENCODING": "utf-8",
                },
                check=True,
                capture_output=True,
            ).stdout.decode()
            for seed in ("1", "2")
        }
        assert outputs == {f"{ENGLISH.analyse(text)}\n"}


class TestCases:
    @pytest.mark.parametrize(
        "query",
        ["What's your R&D policy?", "foo:*", "(a | b) & !c", '"', "\\", "'", "a'b\\c:*&|!()<->"],
    )
    def test_p09_operators_are_text(self, query):
        for lexeme in asked(query):
            assert not re.search(r"[&|!()<>:*'\"\\]", lexeme)

    def test_p09_a_comma_is_a_space(self):
        assert ENGLISH.analyse("dog cat") == ENGLISH.analyse("dog,cat")

    @pytest.mark.parametrize(
        ("query", "document"),
        [
            ("東京", "東京タワーへ行く"),
            ("行", "東京タワーへ行く"),
            ("タワー", "東京タワーへ行く"),
            ("ภาษา", "ภาษาไทยง่ายนิดเดียว"),
            ("ไทย", "ภาษาไทยง่ายนิดเดียว"),
            ("베이스", "데이터베이스를 쓴다"),
        ],
    )
    def test_p12_text_without_spaces_is_found(self, query, document):
        assert lexemes(query) & lexemes(document)
        assert any(lexeme in lexemes(document) for lexeme in asked(query))

    @pytest.mark.parametrize(
        ("query", "document"),
        [
            ("NovaMind", "NovaMind builds AI agents"),
            ("novamind", "NovaMind/AI"),
            ("NovaMind/AI", "see NovaMind/AI."),
            ("AI", "NovaMind/AI"),
            ("foo", "see foo.png"),
            ("foo.png", "see foo.png"),
            ("alpha", "Alpha/Beta"),
            ("beta", "Alpha/Beta"),
            ("10.1.2.3", "host 10.1.2.3:8080 is down"),
            ("ada@example.com", "mail ada@example.com!"),
            ("ada", "mail ada@example.com!"),
            ("example.com", "mail <ada@example.com>"),
            ("2.41", "libc 2.41-12"),
        ],
    )
    def test_p13_tokens_with_separators_are_found(self, query, document):
        shared = asked(query) & lexemes(document)
        assert shared
        assert finds(query, document) or query == "2.41"

    def test_p14_a_hyphen_is_no_operator(self):
        assert meets("AX-4410-B", "part AX-4410-B in stock")
        assert finds("multi-agent", "a multi-agent system")
        assert finds("agent", "a multi-agent system")
        assert asked("-finalized") == asked("finalized")
        assert asked("the of and") == set()

    @pytest.mark.parametrize("one", ["Céüse", "ceuse", "CE\u0301U\u0308SE"])
    @pytest.mark.parametrize("other", ["Céüse", "ceuse"])
    def test_p15_accents_do_not_matter(self, one, other):
        assert finds(one, other)

    def test_p17_ninety_thousand_ids(self):
        ids = [f"id{number:07d}" for number in range(90_000)]
        analysis = ENGLISH.analyse(" ".join(ids))
        assert analysis.length == len(analysis.positions) == 90_000
        assert analysis.positions[ids[0]] == [1]
        assert analysis.positions[ids[-1]] == [90_000]

    @pytest.mark.parametrize("size", [2_047, 100_000])
    @pytest.mark.parametrize("character", ["x", "é", "7", "\U00010400"])
    def test_p17_huge_tokens_are_found_among_words(self, size, character):
        token = character * size
        document = f"before {token} behind"
        assert finds(token, document)
        assert finds("behind", document)
        assert not finds(token + character, document)
        [word] = ENGLISH.words(token)
        assert len(word.surface.encode()) <= 500

    def test_p18_wildcards_are_no_words(self):
        assert asked("%") == set()
        assert asked("100%") == {"100"}
        assert meets("case_1", "case_1") and not finds("case_1", "caseX1")

    def test_p24_lone_surrogates_part_words(self):
        assert lexemes("xa\ud800zb") == {"xa", "zb"}


@pytest.mark.parametrize("language", ["english", "russian", "simple"])
@given(
    words=st.lists(st.text(st.characters(codec="utf-8"), max_size=80) | st.text("abdeginrst", max_size=9), max_size=8)
)
def test_words_at_once_are_found_by_the_same_as_one_by_one(language, words):
    analyser = Analyser(language)
    assert analyser.lexemes(words) == [analyser.lexeme(word) for word in words]
    letters = [word for word in words if word.isalpha()]
    assert analyser.lexemes(letters) == [analyser.lexeme(word) for word in letters]
