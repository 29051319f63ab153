-- Every visible chunk is scored, and the index, which holds everyone's words, is not asked. Whatever scores more than
-- nothing holds one of the words, but where another word of the chunk has the same dimension: that is looked at last, in
-- a few rows more than are wanted.
SELECT id, document_id, score
FROM (
    SELECT id, document_id, lexemes, -(terms <#> %(term_weights)s::sparsevec) AS score
    FROM visible_chunk
    ORDER BY score DESC, id
    LIMIT %(limit)s + 10
) AS best
WHERE score > 0 AND lexemes @@ %(match)s::tsquery
ORDER BY score DESC, id
LIMIT %(limit)s
