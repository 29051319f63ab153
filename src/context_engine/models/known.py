"""An embedder that has been asked before."""

from collections.abc import Awaitable, Mapping, Sequence

from context_engine.models.embedder import Embedder, Row, Rows
from context_engine.models.vectors import Vectors


class KnownQuestions:
    """Answers some questions from memory, so that many searches for one question embed it once."""

    def __init__(self, inner: Embedder, known: Mapping[str, Vectors]) -> None:
        self.name = inner.name
        self.dim = inner.dim
        self._inner = inner
        self._known = known

    def embed_documents(self, texts: Sequence[str], /) -> Rows | Awaitable[Rows]:
        """Embed texts, none from memory."""
        return self._inner.embed_documents(texts)

    def embed_query(self, text: str, /) -> Row | Awaitable[Row]:
        """Embed a question, from memory if it is there."""
        found = self._known.get(text)
        return self._inner.embed_query(text) if found is None else found
