SELECT id, document_id, ts_rank(lexemes, %(match)s::tsquery)::float8 AS score
FROM visible_chunk
WHERE lexemes @@ %(match)s::tsquery
ORDER BY score DESC, id
LIMIT %(limit)s
