SELECT named.id, named.name, chunk.id, chunk.acl_id, chunk.position, chunk.content_hash, chunk.text
FROM (
    SELECT id, name
    FROM {schema}.document
    WHERE id > %(after)s
    ORDER BY id
    LIMIT %(limit)s
) AS named
JOIN {schema}.chunk ON chunk.document_id = named.id
ORDER BY named.id
