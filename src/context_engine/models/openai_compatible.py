"""An embedder behind any endpoint that speaks OpenAI's embeddings protocol."""

import email.utils
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np

from context_engine.errors import ConfigError, ProviderError
from context_engine.models._extras import load_extra
from context_engine.models.vectors import Vectors, as_rows

_WAITS_S = (0.5, 1.0)
# A server that asks for more is not waited for: the caller decides.
_LONGEST_WAIT_S = 20.0


class OpenAICompatibleEmbedder:
    """A client of `POST {base_url}/embeddings`. Threads may share it; close it when done.

    A blank text is not sent (servers refuse the whole batch for it); its row is NaN, as is that of a text
    the server leaves out. Vectors stay as the server scales them.

    Args:
        base_url: up to and without `/embeddings`, such as `https://api.openai.com/v1`.
        timeout_s: for connecting, and for each wait for bytes.
        dimensions: asks the model for shorter vectors; must equal `dim`.
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
        self._httpx: Any = load_extra("httpx", "http")
        try:
            url = self._httpx.URL(base_url)
        except self._httpx.InvalidURL as error:
            raise ConfigError("base_url is not a valid address") from error
        if url.scheme not in ("http", "https") or not url.host:
            raise ConfigError("base_url must be an http:// or https:// address")
        # Without user and password, which a URL can hold.
        self._who = f"embedder {model!r} at {url.netloc.decode()}"
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._prefixes = query_prefix, document_prefix
        self._body = {"model": model} if dimensions is None else {"model": model, "dimensions": dimensions}
        self._sleep = sleep
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = self._httpx.Client(timeout=timeout_s, headers=headers)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts: float32, (n, dim); ProviderError when the endpoint does not answer with embeddings."""
        return self._embed(texts, self._prefixes[1])

    def embed_query(self, text: str) -> Vectors:
        """Embed a question: float32, (dim,); it fails as `embed_documents` does."""
        return self._embed([text], self._prefixes[0])[0]

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
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ProviderError(f"{self._who} answered something other than embeddings") from error
            vectors[batch] = as_rows(rows, len(batch), self.dim, name=self.name)
        return vectors

    def _post(self, texts: list[str]) -> Any:
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


def _retry_after_s(header: str, default_s: float) -> float:
    """Read a Retry-After header, seconds or a date; what cannot be read is the default."""
    with suppress(ValueError):
        seconds = float(header)
        return seconds if seconds >= 0 else default_s
    with suppress(ValueError, TypeError):
        when = email.utils.parsedate_to_datetime(header)
        return max((when - datetime.now(UTC)).total_seconds(), 0.0)
    return default_s


def _in_order(entries: list[dict[str, Any]], count: int) -> list[Any]:
    """Put each embedding at its `index`; of a full answer, one without an index at its place."""
    full = len(entries) == count
    found = {
        entry.get("index", place) if full else entry["index"]: entry["embedding"] for place, entry in enumerate(entries)
    }
    if not found or len(found) != len(entries) or not found.keys() <= set(range(count)):
        raise ValueError("an index that was not asked for, or twice the same")
    return [found.get(place) for place in range(count)]
