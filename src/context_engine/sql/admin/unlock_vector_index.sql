SELECT pg_advisory_unlock(hashtextextended('context_engine.vector_index.' || %(schema_name)s, 0))
