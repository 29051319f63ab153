COPY {schema}.embedding (chunk_id, document_id, acl_id, embedding)
FROM STDIN WITH (FORMAT binary)
