"""How fast the text legs are: beside plain PostgreSQL, and as the corpus grows."""
