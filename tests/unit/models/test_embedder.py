import asyncio
import contextvars
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from context_engine.errors import ConfigError, InputError, ProviderError
from context_engine.models import (
    HashingEmbedder,
    as_embedder,
    async_embed_documents,
    async_embed_query,
    embed_documents,
    embed_query,
)

DEADLINE_S = 30
CALLER = contextvars.ContextVar("CALLER", default="nobody")


class Sync:
    """Gives what it was told to give, or raises it, and notes where it ran."""

    name = "told"
    dim = 2

    def __init__(self, documents=None, query=None):
        self.documents = [[1, 2], [3, 4]] if documents is None else documents
        self.query = [5, 6] if query is None else query
        self.places = []

    def embed_documents(self, texts):
        return self._give(self.documents)

    def embed_query(self, text):
        return self._give(self.query)

    def _give(self, answer):
        self.places.append((threading.current_thread(), CALLER.get()))
        if isinstance(answer, Exception):
            raise answer
        return answer


class Async(Sync):
    """The same, async, with a client that works on one loop only."""

    loop = None

    async def embed_documents(self, texts):
        return await self._later(self.documents)

    async def embed_query(self, text):
        return await self._later(self.query)

    async def _later(self, answer):
        running = asyncio.get_running_loop()
        self.loop = self.loop or running
        assert self.loop is running
        await asyncio.to_thread(int)  # elsewhere, and back on the loop
        return self._give(answer)


class Decorated(Async):
    """A plain method that returns an awaitable."""

    def embed_documents(self, texts):
        return super().embed_documents(texts)

    def embed_query(self, text):
        return super().embed_query(text)


@pytest.fixture(params=[Sync, Async, Decorated])
def kind(request):
    return request.param


@pytest.fixture(params=["async", "sync", "sync inside a loop"])
def call(request):
    """Call an adapter pair in one of the ways the engines do."""
    sync_twin = {async_embed_documents: embed_documents, async_embed_query: embed_query}

    def run(adapter, *arguments):
        if request.param == "async":
            return asyncio.run(adapter(*arguments))
        twin = sync_twin[adapter]
        if request.param == "sync":
            return twin(*arguments)

        async def inside():
            return twin(*arguments)

        return asyncio.run(inside())

    return run


def test_both_adapters_take_sync_and_async_embedders(kind, call):
    rows = call(async_embed_documents, kind(), ["a", "b"])
    assert rows.dtype == np.float32
    assert rows.tolist() == [[1, 2], [3, 4]]
    assert call(async_embed_query, kind(), "a").tolist() == [5, 6]


def test_no_texts_do_not_reach_the_embedder(kind, call):
    embedder = kind()
    assert call(async_embed_documents, embedder, []).shape == (0, 2)
    assert not embedder.places


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (TimeoutError("key sk-1"), True),
        (ConnectionResetError("key sk-1"), True),
        (ValueError("key sk-1"), False),
        (StopIteration("key sk-1"), False),
    ],
)
def test_a_failure_becomes_a_provider_error_without_its_text(kind, call, error, retryable):
    for adapter, argument in ((async_embed_documents, ["a"]), (async_embed_query, "a")):
        with pytest.raises(ProviderError, match="embedder 'told' failed") as caught:
            call(adapter, kind(error, error), argument)
        assert caught.value.retryable is retryable
        assert caught.value.__cause__ is not None
        assert "sk-1" not in str(caught.value)


def test_an_error_of_this_package_passes_unchanged(kind, call):
    error = InputError("as it was")
    with pytest.raises(InputError, match="as it was"):
        call(async_embed_query, kind(query=error), "a")


def test_a_wrong_shape_is_an_error_and_one_bad_row_is_not(kind, call):
    with pytest.raises(ProviderError, match=r"shape \(2, 3\), expected shape \(2, 2\)"):
        call(async_embed_documents, kind([[1, 2, 3], [4, 5, 6]]), ["a", "b"])
    with pytest.raises(ProviderError, match=r"expected shape \(2,\)"):
        call(async_embed_query, kind(query=[1, 2, 3]), "a")
    rows = call(async_embed_documents, kind([None, [3, 4]]), ["a", "b"])
    assert np.isnan(rows[0]).all()
    assert rows[1].tolist() == [3, 4]


def test_an_answer_that_cannot_be_read_is_a_provider_error(call):
    class Unreadable:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("on another device")

    with pytest.raises(ProviderError, match="RuntimeError"):
        call(async_embed_query, Sync(query=Unreadable()), "a")


def test_a_sync_embedder_does_not_block_the_loop_even_with_a_generator():
    loop_went_on = threading.Event()
    reached = threading.Event()
    in_generator = []

    def rows():
        in_generator.append(threading.current_thread())
        reached.set()
        assert loop_went_on.wait(DEADLINE_S)
        yield from [[1, 2], [3, 4]]

    async def main():
        task = asyncio.create_task(async_embed_documents(Sync(rows()), ["a", "b"]))
        assert await asyncio.to_thread(reached.wait, DEADLINE_S)
        loop_went_on.set()
        return await task

    assert asyncio.run(main()).tolist() == [[1, 2], [3, 4]]
    assert in_generator != [threading.main_thread()]


def test_an_async_embedder_runs_on_the_callers_own_loop():
    embedder = Async()

    async def main():
        await async_embed_query(embedder, "a")
        return asyncio.get_running_loop()

    assert asyncio.run(main()) is embedder.loop


def test_sync_callers_share_one_background_loop_which_is_a_daemon():
    embedder = Async()  # asserts that it always meets the same loop
    callers = [threading.Thread(target=embed_query, args=(embedder, "a")) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(DEADLINE_S)
    embed_query(embedder, "a")
    places = {thread for thread, _ in embedder.places}
    assert len(embedder.places) == 5
    assert len(places) == 1
    assert places.pop().daemon


def test_the_callers_context_reaches_the_embedder(kind, call):
    embedder = kind()
    token = CALLER.set("ada")
    try:
        call(async_embed_query, embedder, "a")
    finally:
        CALLER.reset(token)
    assert [caller for _, caller in embedder.places] == ["ada"]


def test_an_async_embedder_that_calls_the_sync_engine_fails_instead_of_hanging():
    class Nested(Async):
        async def embed_query(self, text):
            return embed_query(Async(), text)

    with pytest.raises(ProviderError) as caught:
        embed_query(Nested(), "a")
    assert "use the async one" in str(caught.value.__cause__)


def test_as_embedder_returns_what_is_one():
    embedder = HashingEmbedder()
    assert as_embedder(embedder) is embedder


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("name", None),
        ("name", " "),
        ("dim", None),
        ("dim", 0),
        ("dim", True),
        ("dim", "384"),
        ("embed_documents", None),
        ("embed_query", 3),
    ],
)
def test_as_embedder_names_the_attribute_and_says_what_an_embedder_is(attribute, value):
    parts = {"name": "m", "dim": 2, "embed_documents": list, "embed_query": list}
    with pytest.raises(ConfigError, match=f"not an embedder: {attribute} must be") as caught:
        as_embedder(SimpleNamespace(**{**parts, attribute: value}))
    assert "an embedder has name (str), dim (int)" in str(caught.value)
    del parts[attribute]
    with pytest.raises(ConfigError, match=f"not an embedder: {attribute} must be"):
        as_embedder(SimpleNamespace(**parts))
