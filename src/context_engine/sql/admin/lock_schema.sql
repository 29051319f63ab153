SELECT pg_advisory_xact_lock(hashtextextended('context_engine.schema.' || %(schema_name)s, 0))
