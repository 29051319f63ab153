INSERT INTO {schema}.document (id, acl_id, source, external_id, name, metadata, content_hash)
SELECT *
FROM unnest(
    %(ids)s::bigint[], %(acl_ids)s::int[], %(sources)s::text[], %(external_ids)s::text[], %(names)s::text[],
    %(metadata)s::jsonb[], %(content_hashes)s::bytea[]
) AS given (id, acl_id, source, external_id, name, metadata, content_hash)
ORDER BY id
-- No key named: with (id) alone, another's row of this moment could still break (id, acl_id), which is as unique.
ON CONFLICT DO NOTHING
RETURNING id
