-- Words that begin so, with the number of visible chunks that hold each; nothing where more chunks than `most` hold one.
, begun AS MATERIALIZED (
    SELECT lexemes
    FROM visible_chunk
    WHERE lexemes @@ %(beginning)s::tsquery
    LIMIT %(most)s + 1
)
SELECT word.lexeme, count(*)
FROM begun
CROSS JOIN unnest(begun.lexemes) AS word
WHERE starts_with(word.lexeme, %(start)s)
    AND (SELECT count(*) FROM begun) <= %(most)s
GROUP BY word.lexeme
