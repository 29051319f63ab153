UPDATE {schema}.chunk
SET acl_id = given.acl_id
FROM unnest(%(ids)s::bigint[], %(acl_ids)s::int[]) AS given (id, acl_id)
WHERE chunk.document_id = given.id AND chunk.acl_id <> given.acl_id
