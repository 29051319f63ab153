SELECT document_id, chunk_id, acl_id, {vector_schema}.halfvec_send(embedding::{vector_schema}.halfvec)
FROM {schema}.embedding
WHERE document_id = ANY (%(ids)s::bigint[])
    AND document_id NOT IN (SELECT document_id FROM {schema}.untallied)
