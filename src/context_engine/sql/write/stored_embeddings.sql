SELECT chunk.content_hash, embedding.embedding::real[]
FROM {schema}.chunk
JOIN {schema}.embedding ON embedding.document_id = chunk.document_id AND embedding.chunk_id = chunk.id
WHERE chunk.document_id = ANY (%(ids)s::bigint[]) AND chunk.content_hash = ANY (%(hashes)s::bytea[])
