WITH counted AS (
    SELECT document.acl_id, document.source, count(*) AS documents,
        sum((SELECT count(*) FROM {schema}.chunk WHERE chunk.document_id = document.id)) AS chunks
    FROM {schema}.document
    WHERE document.id = ANY (%(ids)s::bigint[])
    GROUP BY document.acl_id, document.source
),
tallied AS (
    INSERT INTO {schema}.tally (acl_id, source, documents, chunks)
    SELECT acl_id, source, -documents, -chunks FROM counted
)
DELETE FROM {schema}.document
WHERE id = ANY (%(ids)s::bigint[])
