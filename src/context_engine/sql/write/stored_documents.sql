SELECT id, source, external_id, acl_id, acl_set_at, content_hash
FROM {schema}.document
WHERE id = ANY (%(ids)s::bigint[])
