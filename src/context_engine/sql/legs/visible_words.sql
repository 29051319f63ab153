-- Every visible word, with the number of visible chunks that hold it: for a caller who sees few chunks.
SELECT word.lexeme, count(*)
FROM visible_chunk
CROSS JOIN unnest(visible_chunk.lexemes) AS word
GROUP BY word.lexeme
