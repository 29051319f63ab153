SELECT pg_try_advisory_lock(hashtextextended('context_engine.vector_index.' || %(schema_name)s, 0))
