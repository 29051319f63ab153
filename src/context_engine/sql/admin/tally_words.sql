-- Count locked documents in, and fold what was added and taken for the same word and class.
WITH taken AS (
    DELETE FROM {schema}.untallied WHERE document_id = ANY (%(ids)s::bigint[]) RETURNING document_id
),
added AS (
    SELECT word.lexeme AS word, chunk.acl_id, count(*)::int AS chunks
    FROM taken
    JOIN {schema}.chunk ON chunk.document_id = taken.document_id
    CROSS JOIN unnest(chunk.lexemes) AS word
    GROUP BY word.lexeme, chunk.acl_id
),
touched AS (
    SELECT word, acl_id FROM added
    UNION
    SELECT word, acl_id FROM {schema}.word_tally WHERE chunks < 0
),
before AS (
    DELETE FROM {schema}.word_tally AS tally
    USING touched
    WHERE tally.word = touched.word AND tally.acl_id = touched.acl_id
    RETURNING tally.word, tally.acl_id, tally.chunks
)
INSERT INTO {schema}.word_tally (word, acl_id, chunks)
SELECT word, acl_id, sum(chunks)
FROM (SELECT * FROM before UNION ALL SELECT * FROM added) AS every
GROUP BY word, acl_id
HAVING sum(chunks) <> 0
ORDER BY word, acl_id
