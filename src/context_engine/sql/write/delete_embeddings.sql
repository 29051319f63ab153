DELETE FROM {schema}.embedding
USING unnest(%(document_ids)s::bigint[], %(chunk_ids)s::bigint[]) AS stale (document_id, chunk_id)
WHERE embedding.document_id = stale.document_id AND embedding.chunk_id = stale.chunk_id
