UPDATE {schema}.embedding
SET acl_id = given.acl_id
FROM unnest(%(ids)s::bigint[], %(acl_ids)s::int[]) AS given (id, acl_id)
WHERE embedding.document_id = given.id AND embedding.acl_id <> given.acl_id
