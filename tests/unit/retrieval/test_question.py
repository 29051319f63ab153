"""How a question is read, and that PostgreSQL reads what is written of it."""

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.retrieval.query import quote_lexeme, read_question
from context_engine.testing.words import read
from context_engine.text.analyse import Analyser

ANALYSER = Analyser()
# Any string, and strings of what the reader treats specially.
SPECIAL = st.lists(
    st.sampled_from(
        ['"', "-", " ", "or", "OR", "'", "\\", "&", "|", "!", "(", ")", ":*", "<->", "%", "_"]
        + [
            "report",
            "the",
            "AX-4410-B",
            "user-friendly",
            "a/b/c",
            "東京タワー",
            "서울시",
            "naïve",
            "c++",
            "\ud800",
            "\0",
        ]
    ),
    max_size=12,
).map("".join)
ANY_TEXT = st.text() | st.text(st.characters()) | SPECIAL


def question(text, match="any", max_terms=256):
    return read_question(text, ANALYSER, match, max_terms)


class TestCases:
    @pytest.mark.parametrize(
        "text", ["What's your R&D policy?", "foo:*", "(a | b) & !c", '"', "\\", "' OR 1=1 --", "%", "case_1", "<->"]
    )
    @pytest.mark.parametrize("match", ["any", "all"])
    def test_p09_quotes_and_operators_are_no_syntax(self, text, match, asked):
        assert asked(question(text, match).match)

    def test_p09_a_comma_is_as_good_as_a_space(self):
        assert question("dog cat") == question("dog,cat")
        assert question("dog cat", "all") == question("dog,cat", "all")

    def test_p14_a_hyphen_within_a_word_rules_nothing_out(self):
        for text in ("AX-4410-B", "multi-agent", "a-b", "- report", "report -", "--report"):
            assert question(text).excluded is None
        assert "ax4410b" in question("AX-4410-B").terms

    def test_p14_a_lone_exclusion_asks_for_nothing(self):
        read_alone = question("-finalized")
        assert (read_alone.match, read_alone.terms, read_alone.only_excludes) == (None, (), True)

    @pytest.mark.parametrize("text", ["the of and", "", "  ", "...", "🙂", '"the of"', "or", "or or"])
    def test_p14_stop_words_ask_for_nothing_and_are_no_error(self, text):
        nothing = question(text)
        assert (nothing.match, nothing.terms, nothing.only_excludes) == (None, (), False)


class TestReading:
    """Each as PostgreSQL writes the tsquery."""

    def test_any_word_or_every_word(self, written):
        assert written("red kernels") == "'red' | 'kernel'"
        assert written("red kernels", "all") == "'red' & 'kernel'"

    def test_a_word_asked_for_twice_is_asked_once(self, written):
        assert written("kernel kernels") == written("kernel kernel", "all") == "'kernel'"

    def test_every_phrase_must_stand_there(self, written):
        assert written('report "server budget"') == "'server' <-> 'budget'"
        assert written('report "server budget"', "all") == "'report' & 'server' <-> 'budget'"
        assert question('report "server budget"').terms == ("report", "server", "budget")

    def test_a_stop_word_within_a_phrase_keeps_its_place(self, written):
        assert written('"terms of the trade"') == "'term' <3> 'trade'"

    def test_or_joins_what_stands_beside_it(self, written):
        assert written("red or blue kernel", "all") == "( 'red' | 'blue' ) & 'kernel'"
        assert written("or red or", "all") == "'red'"

    def test_exclusions_hold_beside_anything(self, written):
        assert written('red -blue -"server room"') == "'red' & !( 'blue' | 'server' <-> 'room' )"
        assert written("red -the") == "'red'"
        assert question("red -blue").terms == ("red",)

    def test_a_compound_matches_whole_or_in_parts(self, written):
        assert written("AX-4410-B", "all") == "'ax4410b' | 'ax' & '4410' & 'b'"

    def test_a_compound_with_a_stem_of_its_own_matches_in_parts_as_well(self, written):
        assert written("user-friendly", "all") == "'userfriend' | 'user' & 'friend'"

    def test_terms_beyond_the_limit_are_dropped_and_counted(self):
        limited = question("one two three four", max_terms=2)
        assert (limited.terms, limited.dropped_terms) == (("one", "two"), 2)

    def test_a_quotation_mark_without_a_partner_is_no_syntax(self, written):
        assert written('red "blue') == "'red' | 'blue'"
        assert written('red bl"ue') == "'red' | 'bl' | 'ue'"


@pytest.fixture(scope="module")
def connection(server):
    with psycopg.connect(server.url(), autocommit=True) as opened:
        yield opened


@pytest.fixture
def asked(connection):
    """Tell whether PostgreSQL takes a tsquery for one that asks for something; None asks for nothing."""

    def ask(match):
        if match is None:
            return True
        [(nodes,)] = connection.execute("SELECT numnode(%s::tsquery)", [match]).fetchall()
        return nodes > 0

    return ask


@pytest.fixture
def written(connection):
    """Read a question and write its tsquery as PostgreSQL does."""

    def write(text, match="any"):
        [(found,)] = connection.execute("SELECT %s::tsquery::text", [question(text, match).match]).fetchall()
        return found

    return write


@settings(max_examples=300)
@given(text=ANY_TEXT, match=st.sampled_from(["any", "all"]), max_terms=st.sampled_from([1, 3, 256]))
def test_any_text_gives_none_or_a_tsquery(text, match, max_terms, asked):
    found = question(text.encode("utf-8", "replace").decode().replace("\0", "\ufffd"), match, max_terms)
    assert asked(found.match)
    assert asked(found.excluded)
    assert (found.match is None) >= (not found.terms)
    assert len(found.terms) <= max_terms


@settings(max_examples=200)
@given(lexeme=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=200))
def test_any_lexeme_is_quoted_so_that_it_stays_what_it_is(lexeme, connection):
    vector = f"{quote_lexeme(lexeme)}:1"
    [(same,)] = connection.execute("SELECT %s::tsvector @@ %s::tsquery", [vector, quote_lexeme(lexeme)]).fetchall()
    assert same


WORDS = [
    "report",
    "server",
    "budget",
    "the",
    "of",
    "AX-4410-B",
    "ax4410b",
    "user-friendly",
    "a/b",
    "東京タワー",
    "서울시",
]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
PIECES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(WORDS).map(lambda word: f"-{word}"),
    st.tuples(st.sampled_from(["", "-"]), TEXTS).map(lambda pair: f'{pair[0]}"{pair[1]}"'),
    st.just("or"),
)


@settings(max_examples=300)
@given(
    text=TEXTS,
    asks=st.lists(PIECES, min_size=1, max_size=5).map(" ".join),
    match=st.sampled_from(["any", "all"]),
)
def test_postgresql_matches_what_the_oracle_reads(text, asks, match, connection):
    positions = ANALYSER.analyse(text).positions
    vector = " ".join(f"{quote_lexeme(word)}:{','.join(map(str, at))}" for word, at in positions.items())
    found = question(asks, match)
    [(matched,)] = connection.execute(
        "SELECT coalesce(%s::tsvector @@ %s::tsquery, false)", [vector, found.match]
    ).fetchall()
    assert matched == read(asks, ANALYSER, 256).matches(positions, every=match == "all")
