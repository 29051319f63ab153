SELECT DISTINCT NULL::bigint, word.lexeme
FROM visible_chunk
CROSS JOIN unnest(visible_chunk.lexemes) AS word
WHERE length(word.lexeme) BETWEEN %(shortest)s AND %(longest)s
