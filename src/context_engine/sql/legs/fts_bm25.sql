SELECT id, document_id, -(terms <#> %(term_weights)s::sparsevec) AS score
FROM visible_chunk
WHERE lexemes @@ %(match)s::tsquery
ORDER BY score DESC, id
LIMIT %(limit)s
