"""The asynchronous engine; `engine._sync` is generated from it."""
