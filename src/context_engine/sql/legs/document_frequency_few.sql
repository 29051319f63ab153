-- For a caller who sees few chunks: read each of them once, whatever the number of terms.
, held AS MATERIALIZED (
    SELECT lexemes FROM visible_chunk
)
SELECT term.place - 1, count(*)
FROM unnest(%(queries)s::tsquery[]) WITH ORDINALITY AS term (query, place)
JOIN held ON held.lexemes @@ term.query
GROUP BY term.place
