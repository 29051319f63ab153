"""How a question becomes statements, and ranked lists become one. Pure."""
