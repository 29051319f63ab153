"""The command `context-engine`."""
