"""Embedders: what one is, the default one, and others. No optional extra is imported before it is used."""

from context_engine.models.embedder import (
    Embedder,
    as_embedder,
    async_embed_documents,
    async_embed_query,
    embed_documents,
    embed_query,
)
from context_engine.models.hashing import HashingEmbedder
from context_engine.models.local import OnnxEmbedder, minilm
from context_engine.models.openai_compatible import OpenAICompatibleEmbedder
from context_engine.models.vectors import Vectors, normalise

__all__ = [
    "Embedder",
    "HashingEmbedder",
    "OnnxEmbedder",
    "OpenAICompatibleEmbedder",
    "Vectors",
    "as_embedder",
    "async_embed_documents",
    "async_embed_query",
    "embed_documents",
    "embed_query",
    "minilm",
    "normalise",
]
