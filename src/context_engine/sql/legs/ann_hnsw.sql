SELECT chunk_id, document_id, -distance AS score
FROM (
    SELECT chunk_id, document_id, embedding <#> %(embedding)s::halfvec AS distance
    FROM visible_embedding
    ORDER BY embedding <#> %(embedding)s::halfvec
    LIMIT %(limit)s
) AS walked
ORDER BY score DESC, chunk_id
