INSERT INTO {schema}.lexicon (word)
SELECT word FROM unnest(%(words)s::text[]) AS given (word) ORDER BY word
ON CONFLICT DO NOTHING
