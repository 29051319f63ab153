SELECT chunk.id, chunk.position, chunk.text
FROM visible_document AS document
LEFT JOIN visible_chunk AS chunk
    ON chunk.document_id = document.id AND chunk.position BETWEEN %(first)s AND %(last)s
WHERE document.id = %(document_id)s
ORDER BY chunk.position
