"""Retrieval for applications where not everyone may read everything.

Hybrid search on PostgreSQL and pgvector, with the caller's permissions inside the SQL of every leg: each caller gets
exactly what a database holding only their documents would return.
"""

from context_engine.diagnostics.explain import Access, ChunkStanding, Diff, DiffRow, Explanation, LegStanding, Readers
from context_engine.diagnostics.verify import CallerCheck, Difference, VerifyReport
from context_engine.engine import AsyncEngine, Engine
from context_engine.errors import (
    ConfigError,
    ContextEngineError,
    InputError,
    LegError,
    ModelMismatch,
    NotFound,
    ProviderError,
    SchemaOutOfDate,
    StoreError,
)
from context_engine.model import (
    ACL,
    PUBLIC,
    TRUSTED,
    AuditRecord,
    AuditState,
    Chunk,
    Count,
    Document,
    DocumentInfo,
    Hit,
    IngestOutcome,
    IngestReport,
    LegHit,
    LegReport,
    Maintenance,
    Policy,
    SearchReport,
    SearchResult,
    StoredDocument,
    document_id,
)
from context_engine.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "ACL",
    "PUBLIC",
    "TRUSTED",
    "Access",
    "AsyncEngine",
    "AuditRecord",
    "AuditState",
    "CallerCheck",
    "Chunk",
    "ChunkStanding",
    "ConfigError",
    "ContextEngineError",
    "Count",
    "Diff",
    "DiffRow",
    "Difference",
    "Document",
    "DocumentInfo",
    "Engine",
    "Explanation",
    "Hit",
    "IngestOutcome",
    "IngestReport",
    "InputError",
    "LegError",
    "LegHit",
    "LegReport",
    "LegStanding",
    "Maintenance",
    "ModelMismatch",
    "NotFound",
    "Policy",
    "ProviderError",
    "Readers",
    "SchemaOutOfDate",
    "SearchReport",
    "SearchResult",
    "Settings",
    "StoreError",
    "StoredDocument",
    "VerifyReport",
    "document_id",
]
