# Generated from db/_async/__init__.py by tools/unasync.py: change that file instead.
"""The synchronous database layer; `db._sync` is generated from it."""
