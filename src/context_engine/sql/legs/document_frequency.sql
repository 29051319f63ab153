SELECT term.place - 1, count(*)
FROM unnest(%(queries)s::tsquery[]) WITH ORDINALITY AS term (query, place)
JOIN visible_chunk ON visible_chunk.lexemes @@ term.query
GROUP BY term.place
