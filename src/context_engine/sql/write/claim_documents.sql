INSERT INTO {schema}.document (id, acl_id, source, external_id, name, metadata, content_hash)
SELECT *
FROM unnest(
    %(ids)s::bigint[], %(acl_ids)s::int[], %(sources)s::text[], %(external_ids)s::text[], %(names)s::text[],
    %(metadata)s::jsonb[], %(content_hashes)s::bytea[]
) AS given (id, acl_id, source, external_id, name, metadata, content_hash)
ORDER BY id
ON CONFLICT (id) DO NOTHING
RETURNING id
