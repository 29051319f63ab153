SELECT id, source, external_id, acl_id, acl_set_at, content_hash
FROM {schema}.document
WHERE id = ANY (%(ids)s::bigint[])
-- In the order of ids, like every statement that locks documents, so that two of them never wait for each other.
ORDER BY id
FOR UPDATE
