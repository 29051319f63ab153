SELECT document.id, document.name, document.external_id, document.source, document.metadata, chunk.text
FROM visible_document AS document
LEFT JOIN visible_chunk AS chunk ON chunk.document_id = document.id
WHERE document.id = %(document_id)s
ORDER BY chunk.position
