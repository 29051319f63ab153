-- Ids are hashes, so what follows a random one is a random document.
SELECT document_id, text
FROM visible_chunk
WHERE document_id >= %(start)s
ORDER BY document_id, id
LIMIT 1
