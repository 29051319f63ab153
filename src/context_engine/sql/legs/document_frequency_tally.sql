-- From the tally, and from the chunks that it does not hold yet.
, fresh AS MATERIALIZED (                                                                   -- if untallied
    SELECT lexemes                                                                          -- if untallied
    FROM visible_chunk                                                                      -- if untallied
    WHERE document_id IN (SELECT document_id FROM {schema}.untallied)                       -- if untallied
)                                                                                           -- if untallied
SELECT place - 1, sum(chunks)
FROM (
    SELECT term.place, tally.chunks
    FROM unnest(%(words)s::text[]) WITH ORDINALITY AS term (word, place)
    JOIN visible_word_tally AS tally ON tally.word = term.word
    UNION ALL                                                                               -- if untallied
    SELECT term.place, 1                                                                    -- if untallied
    FROM unnest(%(queries)s::tsquery[]) WITH ORDINALITY AS term (query, place)              -- if untallied
    JOIN fresh ON fresh.lexemes @@ term.query                                               -- if untallied
) AS counted
GROUP BY place
HAVING sum(chunks) > 0
