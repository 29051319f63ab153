"""Text in, lexemes and chunks out. Pure."""
