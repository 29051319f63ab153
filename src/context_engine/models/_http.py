"""POST JSON to a model's endpoint, with retries, and without a secret in any message."""

import email.utils
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from context_engine.errors import ConfigError, ProviderError
from context_engine.models._extras import load_extra

if TYPE_CHECKING:
    import httpx

_WAITS_S = (0.5, 1.0, None)
"""After each try; None after the last."""
_LONGEST_WAIT_S = 20.0
"""A server that asks for more is not waited for: the caller decides."""


class ProviderClient:
    """A client of one endpoint. Threads may share it."""

    def __init__(
        self,
        who: str,
        base_url: str,
        *,
        api_key: str | None,
        timeout_s: float,
        sleep: Callable[[float], None],
    ) -> None:
        """Prepare the connections; nothing is sent yet.

        Raises:
            ConfigError: the extra `http` is missing, or an argument cannot be right.
        """
        self._who = f"{who} at {_checked_host(base_url)}"
        if not timeout_s > 0:
            raise ConfigError("timeout_s must be above 0")
        # Refused here: the HTTP library would quote the whole header, key and all, in its error.
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise ConfigError("api_key holds a character that a header cannot, such as a line break")
        self._base_url = base_url.rstrip("/")
        self._sleep = sleep
        self._httpx: Any = load_extra("httpx", "http")
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._client: httpx.Client = self._httpx.Client(timeout=timeout_s, headers=headers)

    def post(self, path: str, body: dict[str, Any]) -> "httpx.Response":
        """Send, and try again, three times in all, after what may pass: 408, 429, 5xx, a lost connection.

        Raises:
            ProviderError: no success in the end.
        """
        for wait_s in _WAITS_S:
            try:
                response = self._client.post(f"{self._base_url}{path}", json=body)
            except self._httpx.HTTPError as error:
                failure = self._unreachable(error)
            else:
                if response.is_success:
                    return response
                failure = self._refused(response.status_code)
                if wait_s is not None:
                    wait_s = _retry_after_s(response.headers.get("retry-after"), wait_s)
            if not failure.retryable or wait_s is None or wait_s > _LONGEST_WAIT_S:
                raise failure
            self._sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    def failure(self, what: str, *, retryable: bool = False) -> ProviderError:
        """Build the error that says which endpoint did what."""
        return ProviderError(f"{self._who} {what}", retryable=retryable)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _unreachable(self, error: Exception) -> ProviderError:
        kinds = self._httpx
        passing = (kinds.TimeoutException, kinds.NetworkError, kinds.RemoteProtocolError)
        failure = self.failure(f"failed: {type(error).__name__}", retryable=isinstance(error, passing))
        failure.__cause__ = error
        return failure

    def _refused(self, status: int) -> ProviderError:
        # The status only: a body can repeat the texts, and some servers repeat the key.
        return self.failure(f"answered HTTP {status}", retryable=status in (408, 429) or status >= 500)


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


def _retry_after_s(header: str | None, default_s: float) -> float:
    """Read a Retry-After header, seconds or a date; what cannot be read is the default."""
    if header is None:
        return default_s
    try:
        seconds = float(header)
    except ValueError:
        return _seconds_until(header, default_s)
    return seconds if seconds >= 0 else default_s


def _seconds_until(date: str, default_s: float) -> float:
    try:
        when = email.utils.parsedate_to_datetime(date)
        return max((when - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return default_s
