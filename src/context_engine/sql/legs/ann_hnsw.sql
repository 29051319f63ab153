SELECT chunk_id, document_id, -distance AS score
FROM (
    SELECT chunk_id, document_id, embedding <#> %(embedding)s::halfvec AS distance
    FROM visible_embedding
    WHERE true
        AND (document_id, chunk_id) NOT IN (                                          -- if excluded
            SELECT document_id, id FROM visible_chunk WHERE lexemes @@ %(excluded)s::tsquery  -- if excluded
        )                                                                             -- if excluded
    ORDER BY embedding <#> %(embedding)s::halfvec
    LIMIT %(limit)s
) AS walked
ORDER BY score DESC, chunk_id
