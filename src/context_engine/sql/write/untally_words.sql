-- Before documents change: take their words out of the tally and their vectors out of the lists, once, and note that
-- they are not in there.
WITH noted AS (
    INSERT INTO {schema}.untallied (document_id)
    SELECT unnest(%(ids)s::bigint[])
    ON CONFLICT DO NOTHING
    RETURNING document_id
),
codes AS (
    DELETE FROM {schema}.code USING noted WHERE code.document_id = noted.document_id
)
INSERT INTO {schema}.word_tally (word, acl_id, chunks)
SELECT word.lexeme, chunk.acl_id, -count(*)
FROM noted
JOIN {schema}.chunk ON chunk.document_id = noted.document_id
CROSS JOIN unnest(chunk.lexemes) AS word
GROUP BY word.lexeme, chunk.acl_id
