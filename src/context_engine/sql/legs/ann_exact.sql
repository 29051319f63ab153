-- Ordered by an expression that no index serves, so that the plan is a scan of every visible row. The question's vector
-- takes the column's type.
SELECT chunk_id, document_id, -(embedding <#> %(embedding)s) AS score
FROM visible_embedding
WHERE true
    AND NOT EXISTS (                                                             -- if excluded
        SELECT FROM visible_chunk                                                -- if excluded
        WHERE visible_chunk.document_id = visible_embedding.document_id          -- if excluded
            AND visible_chunk.id = visible_embedding.chunk_id                    -- if excluded
            AND visible_chunk.lexemes @@ %(excluded)s::tsquery                   -- if excluded
    )                                                                            -- if excluded
ORDER BY score DESC, chunk_id
LIMIT %(limit)s
