"""Cases about words: what a text leg finds, whatever is typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from case_embedders import Same
from case_support import LEGS, TEXT_LEGS, check_stored, doc, found, one, only, ranking

from context_engine import PUBLIC, TRUSTED, Engine
from context_engine.names import LegName

NewEngine = Callable[..., Engine]

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


def corpus(engine: Engine) -> Engine:
    report = engine.ingest(
        [
            doc("policy", "This is our R&D policy for foo and bar"),
            doc("cat", "the cat sat with a dog and a bird"),
            doc("dog", "dog dog cat, said the dog to the cat"),
            doc("quotes", "it's said: \"what's that\" \\ C:\\dogs\\cat.txt 100% {schema} $1 (a | b)"),
        ]
    )
    assert report.created == 4
    return engine


@pytest.mark.parametrize("match", ["any", "all"])
@pytest.mark.parametrize("rank", ["bm25", "ts_rank_cd", "ts_rank"])
def test_p09_quotes_and_operators_raise_nothing(
    match: str, rank: str, new_engine: NewEngine
) -> None:
    engine = corpus(new_engine(search={"lexical_match": match, "lexical_rank": rank}))
    for query in ODD_QUERIES:
        for weights in (None, *map(only, LEGS)):
            result = engine.search(query, principals=TRUSTED, weights=weights)
            assert not result.report.degraded, query
    result = engine.search("What's your R&D policy?", principals=TRUSTED, weights=only("fts"))
    assert found(result)[:1] == (["policy"] if match == "any" else [])


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
        "dog:* cat:A",
        "dog <-> cat",
        "« dog » — cat",
        "dog… cat",
    ],
)
@pytest.mark.parametrize("leg", LEGS)
def test_p09_punctuation_does_not_change_ranks(
    written: str, leg: LegName, engine: Engine
) -> None:
    corpus(engine)
    plain, odd = (
        ranking(engine.search(query, principals=TRUSTED, weights=only(leg)))
        for query in ("dog cat", written)
    )
    assert odd == plain
    assert len(plain) >= 3


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("東京タワーへ行く", "東京"),
        ("東京タワーへ行く", "タワー"),
        ("東京タワーへ行く", "東京タワー"),
        ("東京タワーへ行く", "東"),
        ("東京タワーへ行く", "ﾀﾜｰ"),
        ("京都大学の図書館で本を読む", "図書館"),
        ("我们在北京大学学习数据库", "数据库"),
        ("我们在北京大学学习数据库", "北京大学"),
        ("iPhoneを買う", "iPhone"),
        ("GPT模型的训练", "模型"),
        ("ฉันชอบอ่านหนังสือทุกวัน", "หนังสือ"),
        ("ฉันชอบอ่านหนังสือทุกวัน", "อ่าน"),
        ("ຂ້ອຍມັກອ່ານໜັງສື", "ອ່ານ"),
        ("ខ្ញុំចូលចិត្តអានសៀវភៅ", "សៀវភៅ"),
        ("ကျွန်တော်စာဖတ်တာကြိုက်တယ်", "စာဖတ်"),
        ("서울타워에 간다", "서울"),
        ("서울타워에 간다", "서울타워"),
        ("ㄅㄆㄇ注音", "注音"),
        ("価格は１２３円です", "123"),
    ],
)
def test_p12_scripts_without_spaces(text: str, query: str, engine: Engine) -> None:
    decoys = ["an otter swims", "大阪城公園", "สวัสดีครับ", "부산 바다", "上海"]
    engine.ingest([doc("wanted", text), *(doc(str(n), decoy) for n, decoy in enumerate(decoys))])
    for leg in TEXT_LEGS:
        assert found(engine.search(query, principals=TRUSTED, weights=only(leg)))[:1] == ["wanted"]
    hybrid = engine.search(query, principals=TRUSTED)
    assert found(hybrid)[0] == "wanted"
    assert len(hybrid.hits) == 6  # the vector leg's are not gated


@pytest.mark.parametrize("query", ["🦦", "👩‍👩‍👧 🎉", "—", "東", "zzzz", "the", "?", "(((", "%"])
def test_p12_vector_hits_are_not_gated_by_words(query: str, new_engine: NewEngine) -> None:
    engine = new_engine(embedder=Same())
    engine.ingest([doc(str(number), f"note {number}") for number in range(5)])
    for weights in (None, only("ann")):
        result = engine.search(query, principals=TRUSTED, weights=weights)
        assert len(result.hits) == 5 and not result.report.degraded
    assert not engine.search(query, principals=TRUSTED, weights=only("fts")).hits


TOKENS: list[tuple[str, list[str]]] = [
    ("NovaMind builds AI agents", ["NovaMind", "novamind", "Nova", "mind", "AI", "ai", "agents"]),
    ("see foo.png", ["foo", "png", "foo.png", "FOO.PNG"]),
    ("choose Alpha/Beta", ["Alpha", "Beta", "alpha/beta", "Alpha Beta"]),
    ("the host 10.1.2.3 is down", ["10.1.2.3", "host 10.1.2.3"]),
    ("write to ada@example.com", ["ada@example.com", "ada", "example.com", "example"]),
    ("at https://docs.example.org/a/setup.html?q=1", ["docs.example.org", "setup.html", "setup"]),
    ("release v1.2.3-rc4 is out", ["v1.2.3-rc4", "v1.2.3", "rc4"]),
    ("call parseHTTPResponse first", ["parseHTTPResponse", "parse", "http", "response"]),
    ("set snake_case_name", ["snake_case_name", "snake", "name", "snakecasename"]),
    ("use kebab-case-name", ["kebab-case-name", "kebab", "kebabcasename"]),
    ("open C:\\Users\\ada\\notes.txt", ["notes.txt", "ada", "C:\\Users\\ada\\notes.txt"]),
    ("runs on node.js and .NET", ["node.js", "node", ".NET", "net"]),
    ("written in C++ not Pascal", ["C++", "c++"]),
    ("written in C# or F#", ["C#", "F#"]),
    ("std::vector::push_back", ["std::vector", "push_back", "vector"]),
    ("see issue #1234", ["#1234", "1234"]),
    ("the standard ISO-8859-1", ["ISO-8859-1", "iso8859-1", "8859"]),
    ("speaks HTTP/2 and x86_64", ["HTTP/2", "x86_64"]),
    ("needs libfoo2.so.1", ["libfoo2.so.1", "libfoo2"]),
    ("from AT&T in 1984", ["AT&T"]),
    ("dated 2024-07-17", ["2024-07-17", "2024"]),
    ("with user=ada", ["user=ada", "ada"]),
    ("in ~/.config/app.toml", ["app.toml", ".config", "~/.config/app.toml"]),
    ("costs 1,234,567 euro", ["1,234,567", "1234567"]),
    ("O'Brien's don't", ["O'Brien", "o’brien", "obrien", "don't", "don’t"]),
]


@pytest.mark.parametrize(("text", "queries"), TOKENS, ids=[text for text, _ in TOKENS])
def test_p13_slash_dot_host_version(text: str, queries: Sequence[str], engine: Engine) -> None:
    decoys = ["an otter swims", "a heron wades", "10.1.2.4 10.1.23 110.1.2.3", "foobar.pngs", "x"]
    engine.ingest([doc("wanted", text), *(doc(str(n), decoy) for n, decoy in enumerate(decoys))])
    for query in queries:
        for leg in TEXT_LEGS:
            hits = found(engine.search(query, principals=TRUSTED, weights=only(leg)))
            assert hits[:1] == ["wanted"], (query, leg)


PART_NUMBERS = ["AX-4410-B", "AX-4410-C", "AX-4411-B", "BX-4410-B", "AX 4410", "vitamin B"]


@pytest.mark.parametrize("query", ["AX-4410-B", "ax-4410-b", "AX4410B", "ax_4410_b", "AX 4410 B"])
def test_p14_part_number_first(query: str, engine: Engine) -> None:
    engine.ingest([doc(number, f"part {number} in stock") for number in PART_NUMBERS])
    for leg in TEXT_LEGS:
        assert found(engine.search(query, principals=TRUSTED, weights=only(leg)))[0] == "AX-4410-B"


@pytest.mark.parametrize(
    "query", ["multi-agent", "e-mail", "state-of-the-art", "pre-2020", "x-ray", "2024-07-17", "A-"]
)
def test_p14_a_hyphen_inside_is_no_negation(query: str, engine: Engine) -> None:
    engine.ingest([doc("wanted", f"notes on {query} systems"), doc("other", "an otter swims")])
    for leg in TEXT_LEGS:
        assert found(engine.search(query, principals=TRUSTED, weights=only(leg))) == ["wanted"]


@pytest.mark.parametrize(
    "query",
    ["-finalized", "-secret", '-"final version"', "-a1 -b2", "-the", '-"the of"', "-foo.png"],
)
def test_p14_a_lone_negation_is_not_the_corpus(query: str, engine: Engine) -> None:
    engine.ingest([doc(str(number), f"note {number}") for number in range(5)])
    for weights in (None, *map(only, LEGS)):
        assert not engine.search(query, principals=TRUSTED, weights=weights).hits


@pytest.mark.parametrize("query", ["the of and", "the", "and or not", '"the of"', "a - the", "who"])
def test_p14_stop_words_are_no_error(query: str, engine: Engine) -> None:
    engine.ingest([doc(str(number), f"the note of and {number}") for number in range(5)])
    for leg in TEXT_LEGS:
        assert not engine.search(query, principals=TRUSTED, weights=only(leg)).hits
    result = engine.search(query, principals=TRUSTED)
    assert not result.report.degraded and len(result.hits) == 5


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("report -draft", {"plain"}),
        ("report -drafts", {"plain"}),
        ('report -"first draft"', {"plain", "second"}),
        ("report -first -second", {"plain"}),
        ('"report" -draft', {"plain"}),
        ("report or note -draft", {"plain"}),
    ],
)
def test_p14_an_exclusion_holds_in_every_leg(
    query: str, wanted: set[str], new_engine: NewEngine
) -> None:
    for threshold in (0, 1000):
        engine = new_engine(storage={"ann_exact_threshold": threshold})
        engine.ingest(
            [
                doc("plain", "the report"),
                doc("first", "the report, first draft"),
                doc("second", "the report, second draft"),
            ]
        )
        for weights in (None, *map(only, LEGS)):
            hits = found(engine.search(query, principals=TRUSTED, weights=weights))
            assert set(hits) == wanted


@pytest.mark.parametrize(
    ("one_way", "other_way"),
    [
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
    ],
)
def test_p15_accents_both_ways(one_way: str, other_way: str, engine: Engine) -> None:
    engine.ingest([doc("one", f"at {one_way} today"), doc("other", f"at {other_way} today")])
    for query in (one_way, other_way, one_way.upper()):
        for leg in TEXT_LEGS:
            hits = found(engine.search(query, principals=TRUSTED, weights=only(leg)))
            assert sorted(hits) == ["one", "other"], (query, leg)


@pytest.mark.parametrize(
    ("query", "wanted", "unwanted"),
    [
        ("100%", "rose by 100% today", "rose by 1000 today"),
        ("case_1", "see case_1 today", "see caseq1 today"),
        ("a_b", "see a_b today", "see aqb today"),
        ("foo%bar", "see foo%bar today", "see fooquxbar today"),
        ("ab*", "see ab* today", "see abacus today"),
        ("?at", "see ?at today", "see wheat today"),
        ("[cb]at", "see [cb]at today", "see flat today"),
        (".*", "see .* today", "see x today"),
    ],
)
def test_p18_wildcards_in_a_query_are_literal(
    query: str, wanted: str, unwanted: str, engine: Engine
) -> None:
    engine.ingest([doc("wanted", wanted), doc("unwanted", unwanted)])
    for leg in TEXT_LEGS:
        hits = found(engine.search(query, principals=TRUSTED, weights=only(leg)))
        assert "unwanted" not in hits, leg
        assert query == ".*" or hits == ["wanted"], leg


@pytest.mark.parametrize("query", ["%", "_", "%%", "__", "*", "?", "\\%", "[a-z]"])
def test_p18_a_wildcard_alone_matches_nothing(query: str, engine: Engine) -> None:
    engine.ingest([doc(str(number), f"note number{number}") for number in range(3)])
    for leg in TEXT_LEGS:
        assert not engine.search(query, principals=TRUSTED, weights=only(leg)).hits


@pytest.mark.parametrize(
    "caller", ["teamXa", "team%", "%", "_", "team__", "TEAM_A", "team_a ", "team_", "team-a", "*"]
)
def test_p18_no_grant_by_a_pattern(caller: str, engine: Engine) -> None:
    engine.ingest([doc("one", "an otter swims", acl=["team_a"])])
    for weights in (None, *map(only, LEGS)):
        assert not engine.search("otter", principals=[caller], weights=weights).hits
        assert engine.search("otter", principals=["team_a"], weights=weights).hits
    assert engine.count(principals=[caller]).documents == 0


@pytest.mark.parametrize("pattern", ["team_a", "team%", "%"])
def test_p18_filters_are_literal(pattern: str, engine: Engine) -> None:
    def numbered(number: int, name: str) -> Any:
        return doc(str(number), "an otter", acl=PUBLIC, source=name, metadata={"team": name})

    engine.ingest([numbered(1, "teamXa"), numbered(2, pattern)])
    for narrowed in ({"sources": [pattern]}, {"metadata": {"team": pattern}}):
        assert found(engine.search("otter", principals=[], **narrowed)) == ["2"]
        assert engine.count(principals=[], **narrowed).documents == 1


IDS = [f"q{number:08d}" for number in range(90_000)]


def test_p17_ninety_thousand_distinct_tokens(engine: Engine, new_engine: NewEngine) -> None:
    url = str(engine._url)
    report = engine.ingest(
        [doc("before", "an otter swims"), doc("big", " ".join(IDS)), doc("after", "a heron wades")]
    )
    assert report.created == 3
    for query, wanted in ((IDS[0], "big"), (IDS[-1], "big"), (IDS[45_000], "big"), ("otter", "before")):
        for leg in TEXT_LEGS:
            hits = found(engine.search(query, principals=TRUSTED, weights=only(leg)))
            assert hits[:1] == [wanted]
    assert found(engine.search("heron", principals=TRUSTED, weights=only("fts"))) == ["after"]
    assert one(url, "SELECT count(*) FROM context_engine.document") == 3


@pytest.mark.parametrize("length", [128, 129, 500, 2_046, 2_047, 2_048, 7_990, 100_000, 1_100_000])
@pytest.mark.parametrize("letter", ["x", "é", "東", "😀", "1", "a."])
def test_p17_huge_tokens_among_words(
    letter: str, length: int, new_engine: NewEngine, database_url: str
) -> None:
    token = (letter * length)[:length]
    engine = new_engine(database_url, Same())
    report = engine.ingest(
        [doc("huge", f"otter before {token} heron after"), doc("other", "a badger digs")]
    )
    assert report.created == 2, report.failed
    check_stored(database_url, 256)
    for query, wanted in (("otter", "huge"), ("heron", "huge"), ("badger", "other")):
        for leg in TEXT_LEGS:
            assert found(engine.search(query, principals=TRUSTED, weights=only(leg)))[0] == wanted
    if length <= 1_000 and letter != "😀":
        assert found(engine.search(token, principals=TRUSTED, weights=only("fts"))) == ["huge"]
    assert engine.search("otter", principals=TRUSTED).hits[0].document.external_id == "huge"


@pytest.mark.parametrize("tokens", [16, 256, 1024, 8192])
@pytest.mark.parametrize(
    "text",
    [
        "".join(map(chr, range(0x4E00, 0x9FA6))),
        " ".join(map(chr, range(0x4E00, 0x9FA6))),
        "".join(map(chr, range(0xAC00, 0xD7A4))),
        "/".join(f"{number:x}" for number in range(30_000)),
        ".".join(f"a{number:x}B{number}" for number in range(6_000)),
        " ".join(f"{number:x}" for number in range(20_000)),
        " ".join(["one"] * 30_000),
    ],
    ids=["han", "spaced han", "hangul", "path", "humps", "words", "one word"],
)
def test_p17_every_chunk_size_holds_every_text(
    text: str, tokens: int, new_engine: NewEngine, database_url: str
) -> None:
    engine = new_engine(database_url, Same(), ingest={"chunk_tokens": tokens})
    report = engine.ingest([doc("dense", text), doc("other", "a badger digs")])
    assert report.created == 2, [item.error for item in report.failed]
    check_stored(database_url, tokens)
    for query in (text[:3], text[-3:]):
        assert found(engine.search(query, principals=TRUSTED, weights=only("fts")))[0] == "dense"
