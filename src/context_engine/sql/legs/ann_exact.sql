-- Ordered by an expression that no index serves, so that the plan is a scan of every visible row.
SELECT chunk_id, document_id, -(embedding <#> %(embedding)s::halfvec) AS score
FROM visible_embedding
WHERE true
    AND (document_id, chunk_id) NOT IN (                                          -- if excluded
        SELECT document_id, id FROM visible_chunk WHERE lexemes @@ %(excluded)s::tsquery  -- if excluded
    )                                                                             -- if excluded
ORDER BY score DESC, chunk_id
LIMIT %(limit)s
