-- Documents to count into the tally, held until they are, so that nobody changes them meanwhile. One at a time.
SELECT id
FROM {schema}.document
WHERE id = ANY (ARRAY(SELECT document_id FROM {schema}.untallied ORDER BY document_id LIMIT %(limit)s))
    AND pg_try_advisory_xact_lock(hashtextextended('context_engine.word_tally.' || %(schema_name)s, 0))
ORDER BY id
FOR NO KEY UPDATE SKIP LOCKED
