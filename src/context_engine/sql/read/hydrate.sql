SELECT chunk.id, chunk.position, chunk.text,
    document.id, document.name, document.external_id, document.source, document.metadata
FROM unnest(%(document_ids)s::bigint[], %(chunk_ids)s::bigint[]) AS wanted (document_id, chunk_id)
JOIN visible_chunk AS chunk ON chunk.document_id = wanted.document_id AND chunk.id = wanted.chunk_id
JOIN visible_document AS document ON document.id = wanted.document_id
