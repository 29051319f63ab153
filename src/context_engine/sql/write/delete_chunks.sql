DELETE FROM {schema}.chunk
USING unnest(%(document_ids)s::bigint[], %(chunk_ids)s::bigint[]) AS stale (document_id, chunk_id)
WHERE chunk.document_id = stale.document_id AND chunk.id = stale.chunk_id
