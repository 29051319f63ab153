SELECT document_id, id, content_hash
FROM {schema}.chunk
WHERE document_id = ANY (%(ids)s::bigint[])
