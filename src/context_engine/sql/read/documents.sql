SELECT id, name, external_id, source, metadata
FROM visible_document
WHERE id > %(after)s
ORDER BY id
LIMIT %(limit)s
