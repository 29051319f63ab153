"""An embedder behind any endpoint that speaks OpenAI's embeddings protocol."""

import email.utils
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import urlsplit

import numpy as np

from context_engine.errors import ConfigError, ProviderError
from context_engine.models._extras import load_extra
from context_engine.models.vectors import Vectors, as_rows

if TYPE_CHECKING:
    import httpx

_WAITS_S = (0.5, 1.0)
_LONGEST_WAIT_S = 20.0
"""A server that asks for more is not waited for: the caller decides."""


class OpenAICompatibleEmbedder:
    """A client of `POST {base_url}/embeddings`. Threads may share it; close it when done.

    A blank text is not sent (servers refuse the whole batch for it); its row is NaN, as is that of a text
    the server leaves out. Vectors stay as the server scales them.

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
        if batch_size < 1 or not timeout_s > 0:
            raise ConfigError("batch_size must be at least 1 and timeout_s above 0")
        if dimensions not in (None, dim):
            raise ConfigError(f"dimensions ({dimensions}) must equal dim ({dim})")
        # Refused here: the HTTP library would quote the whole header, key and all, in its error.
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise ConfigError("api_key holds a character that a header cannot, such as a line break")
        self.name = model
        self.dim = dim
        self.batch_size = batch_size
        self._who = f"embedder {model!r} at {_checked_host(base_url)}"
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._prefixes = query_prefix, document_prefix
        self._body = {"model": model} if dimensions is None else {"model": model, "dimensions": dimensions}
        self._sleep = sleep
        self._httpx: Any = load_extra("httpx", "http")
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._client: httpx.Client = self._httpx.Client(timeout=timeout_s, headers=headers)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts to be found: float32, (n, dim).

        Raises:
            ProviderError: the endpoint cannot be reached, refuses, or answers something else.
        """
        _, prefix = self._prefixes
        return self._embed(texts, prefix)

    def embed_query(self, text: str) -> Vectors:
        """Embed a question: float32, (dim,); it fails as `embed_documents` does."""
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
            response = self._post([prefix + texts[position] for position in batch])
            try:
                rows = _in_order(response.json()["data"], len(batch))
            except (ValueError, TypeError, KeyError) as error:
                raise ProviderError(f"{self._who} answered something other than embeddings") from error
            vectors[batch] = as_rows(rows, len(batch), self.dim, name=self.name)
        return vectors

    def _post(self, texts: list[str]) -> "httpx.Response":
        """Send, and try again, three times in all, after what may pass: 408, 429, 5xx, a lost connection."""
        kinds = self._httpx
        passing = (kinds.TimeoutException, kinds.NetworkError, kinds.RemoteProtocolError)
        waits = iter(_WAITS_S)
        while True:
            wait_s = next(waits, None)
            try:
                response = self._client.post(self._url, json={**self._body, "input": texts})
            except kinds.HTTPError as error:
                what, retryable, cause = f"failed: {type(error).__name__}", isinstance(error, passing), error
            else:
                if response.is_success:
                    return response
                # The status only: a body can repeat the texts, and some servers repeat the key.
                status, cause = response.status_code, None
                what, retryable = f"answered HTTP {status}", status in (408, 429) or status >= 500
                wait_s = wait_s and _retry_after_s(response.headers.get("retry-after", ""), wait_s)
            if not retryable or wait_s is None or wait_s > _LONGEST_WAIT_S:
                raise ProviderError(f"{self._who} {what}", retryable=retryable) from cause
            self._sleep(wait_s)


def _checked_host(base_url: str) -> str:
    """Return the host and port: without user and password, which a URL can hold."""
    try:
        parts = urlsplit(base_url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise ConfigError("base_url is not a valid address") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("base_url must be an http:// or https:// address")
    return f"{parts.hostname}{port}"


def _retry_after_s(header: str, default_s: float) -> float:
    """Read a Retry-After header, seconds or a date; what cannot be read is the default."""
    with suppress(ValueError):
        seconds = float(header)
        return seconds if seconds >= 0 else default_s
    with suppress(ValueError, TypeError):
        when = email.utils.parsedate_to_datetime(header)
        return max((when - datetime.now(UTC)).total_seconds(), 0.0)
    return default_s


def _in_order(entries: Any, count: int) -> list[Any]:
    """Put each embedding at its `index`, or, when none has one, at its place; None where there is none.

    Raises ValueError, TypeError or KeyError when the entries are not those that were asked for.
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
