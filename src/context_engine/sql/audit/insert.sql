-- Without a conflict target, so that a role needs no right to read the table.
INSERT INTO {schema}.audit
    (id, at, action, principals, query, query_hash, filters, document_ids, chunk_ids, legs, duration_ms, error)
SELECT id, at, action, principals, query, decode(query_hash, 'hex'), filters, document_ids, chunk_ids, legs,
    duration_ms, error
FROM jsonb_to_recordset(%(records)s::jsonb) AS record (
    id uuid, at timestamptz, action text, principals text[], query text, query_hash text, filters jsonb,
    document_ids bigint[], chunk_ids bigint[], legs jsonb, duration_ms double precision, error text
)
ON CONFLICT DO NOTHING
