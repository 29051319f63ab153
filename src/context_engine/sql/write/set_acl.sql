WITH moved AS (
    SELECT document.id, document.acl_id AS old_acl, document.source,
        (SELECT count(*) FROM {schema}.chunk WHERE chunk.document_id = document.id) AS chunks
    FROM {schema}.document
    WHERE document.id = ANY (%(ids)s::bigint[])
),
tallied AS (
    INSERT INTO {schema}.tally (acl_id, source, documents, chunks)
    SELECT old_acl, source, -1, -chunks FROM moved
    UNION ALL
    SELECT %(acl_id)s, source, 1, chunks FROM moved
),
chunks AS (
    UPDATE {schema}.chunk SET acl_id = %(acl_id)s WHERE document_id = ANY (%(ids)s::bigint[])
),
embeddings AS (
    UPDATE {schema}.embedding SET acl_id = %(acl_id)s WHERE document_id = ANY (%(ids)s::bigint[])
)
UPDATE {schema}.document
SET acl_id = %(acl_id)s, acl_set_at = clock_timestamp(), updated_at = now()
WHERE id = ANY (%(ids)s::bigint[])
