UPDATE {schema}.document
SET acl_id = given.acl_id, name = given.name, metadata = given.metadata, content_hash = given.content_hash,
    updated_at = now()
FROM unnest(
    %(ids)s::bigint[], %(acl_ids)s::int[], %(names)s::text[], %(metadata)s::jsonb[], %(content_hashes)s::bytea[]
) AS given (id, acl_id, name, metadata, content_hash)
WHERE document.id = given.id
