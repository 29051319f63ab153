import json
import math
import re
import unicodedata
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import InputError
from context_engine.text.clean import clean_json, clean_text, require_storable

ANY_TEXT = st.text(st.characters() | st.sampled_from("\x00\r\n\ud800\udc00e\u0301"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


class TestText:
    def test_a_clean_text_is_returned_as_it_is(self):
        for text in ("", "plain\ntext", "Céüse"):
            assert clean_text(text)[0] is text

    @pytest.mark.parametrize(
        ("text", "cleaned", "replaced"),
        [
            ("a\x00b", "a\ufffdb", 1),
            ("a\ud800b\udfff", "a\ufffdb\ufffd", 2),
            ("a\ufffd", "a\ufffd", 0),
            ("a\r\nb\rc\n\r\n", "a\nb\nc\n\n", 0),
            ("e\u0301", "é", 0),
            ("\ud83d\ude00", "😀", 0),
        ],
    )
    def test_what_is_replaced(self, text, cleaned, replaced):
        assert clean_text(text) == (cleaned, replaced)

    @given(ANY_TEXT)
    def test_any_text_becomes_storable_once_and_for_all(self, text):
        cleaned, replaced = clean_text(text)
        assert "\x00" not in cleaned and "\r" not in cleaned
        assert cleaned.encode().decode() == cleaned
        assert unicodedata.is_normalized("NFC", cleaned)
        assert clean_text(cleaned) == (cleaned, 0)
        assert replaced <= len(text)

    def test_p24_lone_surrogate(self):
        assert clean_text("a\ud800b") == ("a\ufffdb", 1)
        assert clean_json({"k\ud800": ["a\udfffb"]}) == ({"k\ufffd": ["a\ufffdb"]}, 2)


class TestJson:
    def test_shape_is_kept(self):
        value = {"a": [1, 2.5, None, True, ("x\x00",)], "e\u0301": {}}
        assert clean_json(value) == ({"a": [1, 2.5, None, True, ("x\ufffd",)], "é": {}}, 1)

    def test_any_mapping_becomes_a_dict(self):
        cleaned, _ = clean_json(MappingProxyType({"a": 1}))
        assert type(cleaned) is dict

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ({"a": [0, math.nan]}, "$.a[1]: nan"),
            ({"a": {"b": -math.inf}}, "$.a.b: -inf"),
            ({"a": {1: 2}}, "$.a: key 1 "),
            ({"a": b"x"}, "$.a: bytes"),
            ([{1, 2}], "$[0]: set"),
            ({"a\x00": 1, "a\ufffd": 2}, "$: two keys"),
            ([10**5000], "$[0]: a number"),
        ],
    )
    def test_what_is_not_json_is_refused_by_its_place(self, value, message):
        with pytest.raises(InputError, match="^" + re.escape(message)):
            clean_json(value)

    def test_nesting_without_end_is_refused(self):
        value = []
        value.append(value)
        with pytest.raises(InputError, match="nested deeper"):
            clean_json(value)

    @given(JSON)
    def test_any_json_becomes_storable(self, value):
        try:
            cleaned, replaced = clean_json(value)
        except InputError as error:
            assert "two keys" in str(error) or "number" in str(error) or "nested" in str(error)
            return
        text = json.dumps(cleaned, ensure_ascii=False, allow_nan=False)
        assert clean_json(cleaned) == (cleaned, 0)
        assert "\\u0000" not in text and text.encode()
        assert replaced >= 0


class TestStorable:
    def test_identifiers_are_composed(self):
        assert require_storable("user:Ame\u0301lie", "principal") == "user:Amélie"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "principal must not be empty"),
            ("a\x00", r"principal has U\+0000 at position 1"),
            ("\ud83d\ude00", r"principal has U\+D83D at position 0"),
        ],
    )
    def test_nothing_is_replaced_in_an_identifier(self, text, message):
        with pytest.raises(InputError, match=message):
            require_storable(text, "principal")

    def test_p18_wildcards_stay_as_they_are(self):
        assert require_storable("team_a", "principal") == "team_a"
        assert require_storable("%", "principal") == "%"
