INSERT INTO {schema}.lexicon (word, keys)
SELECT word, keys::int[]
FROM unnest(%(words)s::text[], %(keys)s::text[]) AS given (word, keys)
ORDER BY word
ON CONFLICT DO NOTHING
