SELECT chunk_id, document_id, -distance AS score
FROM (
    SELECT chunk_id, document_id, embedding <#> %(embedding)s::halfvec AS distance
    FROM visible_embedding
    WHERE true
        AND NOT EXISTS (                                                             -- if excluded
            SELECT FROM visible_chunk                                                -- if excluded
            WHERE visible_chunk.document_id = visible_embedding.document_id          -- if excluded
                AND visible_chunk.id = visible_embedding.chunk_id                    -- if excluded
                AND visible_chunk.lexemes @@ %(excluded)s::tsquery                   -- if excluded
        )                                                                            -- if excluded
    ORDER BY embedding <#> %(embedding)s::halfvec
    LIMIT %(limit)s
) AS walked
ORDER BY score DESC, chunk_id
