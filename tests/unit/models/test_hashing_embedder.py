import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import ConfigError
from context_engine.models import HashingEmbedder


@given(st.lists(st.text(), max_size=4), st.sampled_from([1, 2, 64, 384]))
def test_every_text_has_a_unit_vector_of_its_own(texts, dim):
    embedder = HashingEmbedder(dim)
    vectors = embedder.embed_documents(texts)
    assert vectors.shape == (len(texts), dim)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    for vector, text in zip(vectors, texts, strict=True):
        assert embedder.embed_query(text).tobytes() == vector.tobytes()


def test_related_spellings_are_near_and_strangers_are_not():
    near, query, far = HashingEmbedder(256).embed_documents(
        ["postgres permissions", "PostgreSQL permission", "a cat on the roof"]
    )
    assert query @ near > 0.4
    assert abs(query @ far) < 0.2


def test_the_order_of_words_changes_nothing():
    one, other = HashingEmbedder().embed_documents(["one two three four", "four THREE two one"])
    assert one.tobytes() == other.tobytes()


def test_a_text_without_words_has_weight_on_one_feature():
    for text in ("", " \n", "!?"):
        assert HashingEmbedder(8).embed_query(text).tolist() == [1, 0, 0, 0, 0, 0, 0, 0]


def test_another_process_gives_the_same_vector():
    code = (
        "from context_engine.models import HashingEmbedder;"
        "print(HashingEmbedder(16).embed_query('ada ceüse 東京').tobytes().hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert outputs == {HashingEmbedder(16).embed_query("ada ceüse 東京").tobytes().hex()}


def test_the_name_holds_the_dimension_which_must_be_positive():
    assert HashingEmbedder(32).name == "hashing-32"
    with pytest.raises(ConfigError, match="dim must be at least 1"):
        HashingEmbedder(0)
