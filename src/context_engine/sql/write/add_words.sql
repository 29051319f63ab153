INSERT INTO {schema}.lexicon (word, deletions)
SELECT word, deletions::int[]
FROM unnest(%(words)s::text[], %(deletions)s::text[]) AS given (word, deletions)
ORDER BY word
ON CONFLICT DO NOTHING
