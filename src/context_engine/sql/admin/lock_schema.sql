-- One lock for the database, not for the schema: extensions belong to the whole of it.
SELECT pg_advisory_xact_lock(hashtextextended('context_engine.schema', 0))
