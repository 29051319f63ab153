"""Cases about words: what a text leg finds, whatever is typed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from case_embedders import Same
from case_support import LEGS, TEXT_LEGS, doc, found, only, ranking

from context_engine import TRUSTED, Engine
from context_engine.names import LegName

Library = Callable[..., Engine]

ODD_QUERIES = [
    "What's your R&D policy?",
    "foo:*",
    "(a | b) & !c",
    '"',
    "'",
    "\\",
    "`",
    '"unclosed phrase',
    'closed" at the end',
    '""',
    "''",
    '" "',
    "cat:A",
    ":A",
    "a:b:c",
    "foo <-> bar",
    "<->",
    "<2>",
    "!!",
    "!cat",
    "& cat",
    "cat |",
    "()",
    ")(",
    "-",
    "--",
    "- cat",
    "cat -",
    '-"',
    '-""',
    '-"cat',
    '"cat"dog"',
    "*",
    "%",
    "%s %(match)s",
    "{schema} {",
    "}}{{",
    "$1",
    "$$ $a$",
    "'; DROP TABLE chunk; --",
    "E'\\'' OR 1=1",
    "\\' \\\\",
    "a\0b",
    "\ud800 cat",
    "cat\tdog\r\nbird",
    "or",
    "or or or",
    "cat or",
    "or cat",
    "cat OR -dog",
    "not cat",
    "cat AND dog",
    "\u200b\u200d\ufeff",
    "\u202ecat",
    "🦦🦦 👩‍👩‍👧",
    "́",
    "a" * 3000,
    "'" * 3000,
    '"a" ' * 500,
    "((((((((((" * 100,
    "\\" * 3001,
    " ",
    "",
    "?!?",
]


CORPUS = [
    doc("policy", "This is our R&D policy for foo and bar"),
    doc("cat", "the cat sat with a dog and a bird"),
    doc("dog", "dog dog cat, said the dog to the cat"),
    doc("quotes", "it's said: \"what's that\" \\ C:\\dogs\\cat.txt 100% {schema} $1 (a | b)"),
]


@pytest.mark.parametrize("match", ["any", "all"])
@pytest.mark.parametrize("rank", ["bm25", "ts_rank_cd", "ts_rank"])
def test_p09_quotes_and_operators_raise_nothing(match: str, rank: str, library: Library) -> None:
    search = {"lexical_match": match, "lexical_rank": rank}
    engine = library(f"odd {match} {rank}", CORPUS, search=search)
    for query in ODD_QUERIES:
        for weights in (None, *map(only, LEGS)):
            result = engine.search(query, principals=TRUSTED, weights=weights)
            assert not result.report.degraded, query
    result = engine.search("What's your R&D policy?", principals=TRUSTED, weights=only("fts"))
    assert found(result)[:1] == ["policy"]


@pytest.mark.parametrize("leg", LEGS)
@pytest.mark.parametrize(
    "written",
    [
        "dog,cat",
        "dog, cat",
        "dog;cat",
        "dog|cat",
        "dog&cat",
        "dog & cat",
        "dog | cat",
        "(dog) (cat)",
        "!dog cat",
        "dog! cat?",
        "'dog' cat",
        "dog' 'cat",
        "dog\tcat\n",
        "dog\\ cat",
        "DOG Cat",
        '"dog cat',
        "dog:* cat:*",
        "dog <-> cat",
        "« dog » — cat",
        "dog… cat",
    ],
)
def test_p09_punctuation_does_not_change_ranks(written: str, leg: LegName, library: Library) -> None:
    engine = library("corpus", CORPUS)
    plain, odd = (
        ranking(engine.search(query, principals=TRUSTED, weights=only(leg))) for query in ("dog cat", written)
    )
    assert odd == plain
    assert len(plain) >= 3


UNSPACED = [
    ("東京タワーへ行く", ["東京", "タワー", "東京タワー", "東", "ﾀﾜｰ"]),
    ("京都大学の図書館で本を読む", ["図書館", "京都", "本を読む"]),
    ("我们在北京大学学习数据库", ["数据库", "北京大学"]),
    ("iPhoneを買う", ["iPhone", "iphone"]),
    ("GPT模型的训练", ["模型", "gpt"]),
    ("ฉันชอบอ่านหนังสือทุกวัน", ["หนังสือ", "อ่าน", "ทุกวัน"]),
    ("ຂ້ອຍມັກອ່ານໜັງສື", ["ອ່ານ"]),
    ("ខ្ញុំចូលចិត្តអានសៀវភៅ", ["សៀវភៅ"]),
    ("ကျွန်တော်စာဖတ်တာကြိုက်တယ်", ["စာဖတ်"]),
    ("서울타워에 간다", ["서울", "서울타워"]),
    ("ㄅㄆㄇ注音", ["注音", "ㄅㄆ"]),
    ("価格は１２３円です", ["123", "１２３"]),
]
UNSPACED_DECOYS = ["an otter swims", "大阪城公園", "สวัสดีครับ", "부산 바다", "上海"]


@pytest.mark.parametrize(("text", "query"), [(text, query) for text, queries in UNSPACED for query in queries])
def test_p12_scripts_without_spaces(text: str, query: str, library: Library) -> None:
    texts = [text for text, _ in UNSPACED] + UNSPACED_DECOYS
    engine = library("unspaced", [doc(item, item) for item in texts])
    for leg in TEXT_LEGS:
        assert found(engine.search(query, principals=TRUSTED, weights=only(leg)))[:1] == [text]
    hybrid = engine.search(query, principals=TRUSTED, top_k=100)
    assert text in found(hybrid)[:5]
    assert len(hybrid.hits) == len(texts)  # the vector leg's are not gated


@pytest.mark.parametrize("query", ["🦦", "👩‍👩‍👧 🎉", "—", "東", "zzzz", "the", "?", "(((", "%"])
def test_p12_vector_hits_are_not_gated_by_words(query: str, library: Library) -> None:
    engine = library("same", [doc(str(number), f"note {number}") for number in range(5)], Same())
    for weights in (None, only("ann")):
        result = engine.search(query, principals=TRUSTED, weights=weights)
        assert len(result.hits) == 5 and not result.report.degraded
    assert not engine.search(query, principals=TRUSTED, weights=only("fts")).hits


TOKENS: dict[str, list[str]] = {
    "NovaMind builds AI agents": ["NovaMind", "novamind", "Nova", "mind", "AI", "ai", "agents"],
    "see foo.png": ["foo", "png", "foo.png", "FOO.PNG"],
    "choose Alpha/Beta": ["Alpha", "Beta", "alpha/beta", "Alpha Beta"],
    "the host 10.1.2.3 is down": ["10.1.2.3", "host 10.1.2.3"],
    "write to ada@example.com": ["ada@example.com", "ada", "example.com", "example"],
    "at https://docs.example.org/a/setup.html?q=1": ["docs.example.org", "setup.html", "setup"],
    "release v1.2.3-rc4 is out": ["v1.2.3-rc4", "v1.2.3", "rc4"],
    "call parseHTTPResponse first": ["parseHTTPResponse", "parse", "http", "response"],
    "set snake_case_name": ["snake_case_name", "snake", "name", "snakecasename"],
    "use kebab-case-name": ["kebab-case-name", "kebab", "kebabcasename"],
    "open C:\\Users\\bo\\notes.txt": ["notes.txt", "bo", "C:\\Users\\bo\\notes.txt"],
    "runs on node.js and .NET": ["node.js", "node", ".NET", "net"],
    "written in C++ not Pascal": ["C++", "c++"],
    "written in C# or F#": ["C#", "F#"],
    "std::vector::push_back": ["std::vector", "push_back", "vector"],
    "see issue #1234": ["#1234", "1234"],
    "the standard ISO-8859-1": ["ISO-8859-1", "iso8859-1", "8859"],
    "speaks HTTP/2 and x86_64": ["HTTP/2", "x86_64"],
    "needs libbar2.so.1": ["libbar2.so.1", "libbar2"],
    "from AT&T in 1984": ["AT&T"],
    "dated 2024-07-17": ["2024-07-17", "2024"],
    "with user=ada": ["user=ada", "ada"],
    "in ~/.config/app.toml": ["app.toml", ".config", "~/.config/app.toml"],
    "costs 1,234,567 euro": ["1,234,567"],
    "O'Brien's boat": ["O'Brien", "o’brien", "obrien", "O'Brien’s"],
}


@pytest.mark.parametrize("text", TOKENS)
def test_p13_slash_dot_host_version(text: str, library: Library) -> None:
    decoys = ["an otter swims", "10.1.2.4 10.1.23 110.1.2.3", "foobar.pngs", "ax", "a user"]
    engine = library("tokens", [doc(item, item) for item in (*TOKENS, *decoys)])
    for query in TOKENS[text]:
        for leg in TEXT_LEGS:
            hits = found(engine.search(query, principals=TRUSTED, weights=only(leg)))
            assert text in hits, (query, leg)
            assert not query.count(".") > 1 or hits[0] == text, (query, leg)


PART_NUMBERS = ["AX-4410-B", "AX-4410-C", "AX-4411-B", "BX-4410-B", "AX 4410", "vitamin B"]


@pytest.mark.parametrize("query", ["AX-4410-B", "ax-4410-b", "AX4410B", "ax_4410_b", "AX 4410 B"])
def test_p14_part_number_first(query: str, library: Library) -> None:
    parts = [doc(number, f"part {number} in stock") for number in PART_NUMBERS]
    engine = library("parts", parts)
    for leg in TEXT_LEGS:
        assert found(engine.search(query, principals=TRUSTED, weights=only(leg)))[0] == "AX-4410-B"


HYPHENATED = ["multi-agent", "e-mail", "state-of-the-art", "pre-2020", "x-ray", "2024-07-17"]


@pytest.mark.parametrize("query", HYPHENATED)
def test_p14_a_hyphen_inside_is_no_negation(query: str, library: Library) -> None:
    texts = [doc(item, f"notes on {item} systems") for item in HYPHENATED]
    engine = library("hyphens", texts)
    for leg in TEXT_LEGS:
        assert found(engine.search(query, principals=TRUSTED, weights=only(leg)))[0] == query


NOTES = [doc(str(number), f"the note of and {number}") for number in range(5)]


@pytest.mark.parametrize(
    "query",
    ["-finalized", "-secret", '-"final version"', "-a1 -b2", "-foo.png", "-the", '-"the of"'],
)
def test_p14_a_lone_negation_is_not_the_corpus(query: str, library: Library) -> None:
    engine = library("notes", NOTES)
    for weights in (None, *map(only, LEGS)):
        assert not engine.search(query, principals=TRUSTED, weights=weights).hits


@pytest.mark.parametrize("query", ["the of and", "the", "and or not", '"the of"', "a - the", "who"])
def test_p14_stop_words_are_no_error(query: str, library: Library) -> None:
    engine = library("notes", NOTES)
    for leg in TEXT_LEGS:
        assert not engine.search(query, principals=TRUSTED, weights=only(leg)).hits
    result = engine.search(query, principals=TRUSTED)
    assert not result.report.degraded and len(result.hits) == 5


DRAFTS = [
    doc("plain", "the report"),
    doc("first", "the report, first draft"),
    doc("second", "the report, second draft"),
]


@pytest.mark.parametrize("threshold", [0, 1000])
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("report -draft", {"plain"}),
        ("report -drafts", {"plain"}),
        ('report -"first draft"', {"plain", "second"}),
        ("report -first -second", {"plain"}),
        ('"report" -draft', {"plain"}),
        ("report or note -draft", {"plain"}),
        ("the -draft", {"plain"}),
    ],
)
def test_p14_an_exclusion_holds_in_every_leg(query: str, wanted: set[str], threshold: int, library: Library) -> None:
    storage = {"ann_exact_threshold": threshold}
    engine = library(f"drafts {threshold}", DRAFTS, storage=storage)
    for weights in (None, only("ann"), *map(only, TEXT_LEGS)):
        hits = found(engine.search(query, principals=TRUSTED, weights=weights))
        assert set(hits) == wanted or (query.startswith("the") and not hits)


ACCENTS = [
    ("Céüse", "ceuse"),
    ("Ce\u0301u\u0308se", "Céüse"),
    ("naïve", "naive"),
    ("São", "sao"),
    ("ÉCOLE", "école"),
    ("Ångström", "angstrom"),
    ("Łódź", "lodz"),
    ("Nguyễn", "nguyen"),
    ("œuvre", "oeuvre"),
    ("straße", "strasse"),
    ("STRASSE", "straße"),
    ("Øresund", "oresund"),
    ("Ελλάδα", "ελλαδα"),
    ("Ёлка", "елка"),
    ("İzmir", "izmir"),
    ("ﬁnance", "finance"),
    ("Ｔｏｋｙｏ", "tokyo"),
    ("piñata", "PINATA"),
    ("co\u00adoperate", "cooperate"),
]


@pytest.mark.parametrize(("one_way", "other_way"), ACCENTS)
def test_p15_accents_both_ways(one_way: str, other_way: str, library: Library) -> None:
    texts = [
        doc(f"{number} {side}", f"at {word} today")
        for number, pair in enumerate(ACCENTS)
        for side, word in enumerate(pair)
    ]
    engine = library("accents", texts)
    number = ACCENTS.index((one_way, other_way))
    for query in (one_way, other_way, one_way.upper()):
        for leg in TEXT_LEGS:
            hits = found(engine.search(query, principals=TRUSTED, weights=only(leg)))
            assert {f"{number} 0", f"{number} 1"} <= set(hits), (query, leg)
