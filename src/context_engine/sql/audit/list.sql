SELECT id::text, at, action, principals, query, encode(query_hash, 'hex'), filters, document_ids, chunk_ids, legs,
    duration_ms, error
FROM {schema}.audit
WHERE (at, id) < (%(before_at)s::timestamptz, %(before_id)s::uuid)
    AND at >= %(since)s::timestamptz
    AND (%(principal)s::text IS NULL OR principals @> ARRAY[%(principal)s::text])
    AND (NOT %(trusted)s OR principals IS NULL)
    AND (%(action)s::text IS NULL OR action = %(action)s::text)
    AND (%(document)s::bigint IS NULL OR document_ids @> ARRAY[%(document)s::bigint])
    AND (%(query)s::text IS NULL OR query = %(query)s::text OR encode(query_hash, 'hex') = %(query_hash)s::text)
ORDER BY at DESC, id DESC
LIMIT %(limit)s
