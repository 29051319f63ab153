"""The asynchronous database layer; `db._sync` is generated from it."""
