WITH locked AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtextextended('context_engine.tally.' || %(schema_name)s, 0)) AS free
),
size AS (
    SELECT count(*) AS rows, count(DISTINCT (acl_id, source)) AS classes FROM {schema}.tally
),
taken AS (
    DELETE FROM {schema}.tally
    WHERE (SELECT free FROM locked) AND (SELECT rows > 2 * classes + 1000 FROM size)
    RETURNING acl_id, source, documents, chunks
)
INSERT INTO {schema}.tally (acl_id, source, documents, chunks)
SELECT acl_id, source, sum(documents), sum(chunks)
FROM taken
GROUP BY acl_id, source
HAVING sum(documents) <> 0 OR sum(chunks) <> 0
