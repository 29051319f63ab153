"""Every error this package raises.

::

    ContextEngineError
    ├── ConfigError          settings, extras, extensions: fix the installation
    ├── InputError           an argument: fix the call
    ├── NotFound             no such document, or not this caller's: the two are one answer
    ├── LegError             one leg of a search failed and the caller asked for no other
    ├── ProviderError        an embedding or language model failed; `retryable` says whether to try again
    └── StoreError           the database refused or went away
        ├── SchemaOutOfDate  run the migrations
        └── ModelMismatch    the database was filled by another embedding model or analyser

`code` is stable and the same on every surface. The driver's own error is in `__cause__`; its text never
becomes part of a message, because it can name SQL and rows that a remote caller must not see.
"""


class ContextEngineError(Exception):
    """Root of every error raised by this package."""

    code = "error"


class ConfigError(ContextEngineError):
    """The installation or the settings cannot work as they are."""

    code = "config"


class InputError(ContextEngineError):
    """An argument is not valid; nothing was done."""

    code = "invalid_input"


class NotFound(ContextEngineError):
    """No such document for this caller."""

    code = "not_found"

    def __init__(self, message: str = "no such document") -> None:
        super().__init__(message)


class LegError(ContextEngineError):
    """A leg of the search failed and no other leg could answer."""

    code = "leg_failed"


class ProviderError(ContextEngineError):
    """A model provider failed.

    Attributes:
        retryable: whether the same call may succeed later.
    """

    code = "provider"

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class StoreError(ContextEngineError):
    """The database refused the work or could not be reached.

    Attributes:
        retryable: whether the same call may succeed later.
        connection_lost: whether the connection, rather than a statement, failed.
    """

    code = "store"

    def __init__(self, message: str, *, retryable: bool = False, connection_lost: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.connection_lost = connection_lost


class SchemaOutOfDate(StoreError):
    """The tables are older or newer than this package."""

    code = "schema_out_of_date"


class ModelMismatch(StoreError):
    """The stored embeddings or lexemes come from another model or analyser version."""

    code = "model_mismatch"
