-- Ordered by an expression that no index serves, so that the plan is a scan of every visible row.
SELECT chunk_id, document_id, -(embedding <#> %(embedding)s::halfvec) AS score
FROM visible_embedding
ORDER BY score DESC, chunk_id
LIMIT %(limit)s
