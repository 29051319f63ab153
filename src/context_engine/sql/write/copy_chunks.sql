COPY {schema}.chunk (id, document_id, acl_id, position, content_hash, lexemes, terms, text)
FROM STDIN WITH (FORMAT binary)
