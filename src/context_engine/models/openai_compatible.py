"""An embedder behind any endpoint that speaks OpenAI's embeddings protocol."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Self, cast

import numpy as np

from context_engine.errors import ConfigError
from context_engine.models._http import ProviderClient
from context_engine.models.vectors import Vectors, as_rows


class OpenAICompatibleEmbedder:
    """A client of `POST {base_url}/embeddings`. Threads may share it; close it when done.

    A blank text is not sent (servers refuse the whole batch for it); its row is NaN, as is that of a text
    the server leaves out.

    Attributes:
        name: the model's name.
        dim: length of the vectors.
        batch_size: texts in one request.
    """

    def __init__(  # noqa: PLR0913 - one argument for each thing that endpoints differ in
        self,
        base_url: str,
        model: str,
        dim: int,
        api_key: str | None = None,
        timeout_s: float = 30,
        batch_size: int = 128,
        query_prefix: str = "",
        document_prefix: str = "",
        dimensions: int | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare a client; nothing is sent yet.

        Args:
            base_url: up to and without `/embeddings`, such as `https://api.openai.com/v1`.
            model: as the endpoint names it; also this embedder's name.
            dim: length of the vectors that come back.
            api_key: sent as a bearer token.
            timeout_s: for connecting, and for each wait for bytes.
            batch_size: texts in one request.
            query_prefix: put before a question.
            document_prefix: put before a text to be found.
            dimensions: asks the model for shorter vectors; must equal `dim`.
            sleep: waits between tries.

        Raises:
            ConfigError: the extra `http` is missing, or an argument cannot be right.
        """
        if batch_size < 1:
            raise ConfigError("batch_size must be at least 1")
        if dimensions not in (None, dim):
            raise ConfigError(f"dimensions ({dimensions}) must equal dim ({dim})")
        self.name = model
        self.dim = dim
        self.batch_size = batch_size
        self._prefixes = query_prefix, document_prefix
        self._body: dict[str, Any] = {"model": model}
        if dimensions is not None:
            self._body["dimensions"] = dimensions
        self._client = ProviderClient(
            f"embedder {model!r}", base_url, api_key=api_key, timeout_s=timeout_s, sleep=sleep
        )

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts to be found.

        Returns:
            float32, (n, dim), as the server scales them; NaN for a text without a vector.

        Raises:
            ProviderError: the endpoint cannot be reached, refuses, or answers something else.
        """
        _, prefix = self._prefixes
        return self._embed(texts, prefix)

    def embed_query(self, text: str) -> Vectors:
        """Embed a question.

        Returns:
            float32, (dim,), as the server scales it; NaN for a blank text.

        Raises:
            ProviderError: the endpoint cannot be reached, refuses, or answers something else.
        """
        prefix, _ = self._prefixes
        return self._embed([text], prefix)[0]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _embed(self, texts: Sequence[str], prefix: str) -> Vectors:
        vectors = np.full((len(texts), self.dim), np.nan, dtype=np.float32)
        told = [position for position, text in enumerate(texts) if text.strip()]
        for start in range(0, len(told), self.batch_size):
            batch = told[start : start + self.batch_size]
            rows = self._request([prefix + texts[position] for position in batch])
            vectors[batch] = as_rows(rows, len(batch), self.dim, name=self.name)
        return vectors

    def _request(self, texts: list[str]) -> list[Any]:
        response = self._client.post("/embeddings", {**self._body, "input": texts})
        try:
            return _in_order(response.json()["data"], len(texts))
        except (ValueError, TypeError, KeyError) as error:
            raise self._client.failure("answered something other than embeddings") from error


def _in_order(entries: Any, count: int) -> list[Any]:
    """Put each embedding at its `index`, or, when none has one, at its place; None where there is none.

    Raises:
        ValueError: no entries, or an index that was not asked for or comes twice.
        TypeError: not a list of objects.
        KeyError: an entry has no embedding.
    """
    if not isinstance(entries, list) or not entries:
        raise ValueError("no entries")
    answered = cast(list[dict[str, Any]], entries)
    if len(answered) == count and not any("index" in entry for entry in answered):
        return [entry["embedding"] for entry in answered]
    found = {entry["index"]: entry["embedding"] for entry in answered}
    if len(found) != len(answered) or not found.keys() <= set(range(count)):
        raise ValueError("an index that was not asked for, or twice the same")
    return [found.get(place) for place in range(count)]
