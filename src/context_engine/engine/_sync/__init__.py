# Generated from engine/_async/__init__.py by tools/unasync.py: change that file instead.
"""The synchronous engine; `engine._sync` is generated from it."""
