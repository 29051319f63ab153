-- Documents to count into the tally and to file, held until they are, so that nobody changes them meanwhile. One call at
-- a time, and none while a vector index is built, which would miss them.
SELECT id
FROM {schema}.document
WHERE id = ANY (ARRAY(SELECT document_id FROM {schema}.untallied ORDER BY document_id LIMIT %(limit)s))
    AND NOT EXISTS (
        SELECT FROM {schema}.setting
        WHERE name = 'vector_index_build' AND (value ->> 'claimed_at')::timestamptz > now() - interval '10 minutes'
    )
    AND pg_try_advisory_xact_lock(hashtextextended('context_engine.word_tally.' || %(schema_name)s, 0))
ORDER BY id
FOR NO KEY UPDATE SKIP LOCKED
