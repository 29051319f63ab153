-- Visible words of these lengths, some named ones and those that begin so, with the number of visible chunks that hold
-- each: for a caller who sees few chunks.
SELECT word.lexeme, count(*)
FROM visible_chunk
CROSS JOIN unnest(visible_chunk.lexemes) AS word
WHERE length(word.lexeme) BETWEEN %(shortest)s AND %(longest)s
    OR word.lexeme = ANY (string_to_array(%(guessed)s, ' '))
    OR starts_with(word.lexeme, %(start)s)
GROUP BY word.lexeme
