COPY {schema}.code (document_id, chunk_id, acl_id, list, scale, code)
FROM STDIN WITH (FORMAT binary)
