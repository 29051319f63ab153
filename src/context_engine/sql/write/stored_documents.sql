SELECT id, source, external_id, acl_id, acl_revision, content_hash
FROM {schema}.document
WHERE id = ANY (%(ids)s::bigint[])
