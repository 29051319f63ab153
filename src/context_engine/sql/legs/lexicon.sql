-- Spellings near each word, hidden ones too: what no visible chunk holds is dropped before it can count (trgm.sql).
SELECT asked.place - 1, lexicon.word
FROM unnest(%(words)s::text[]) WITH ORDINALITY AS asked (word, place)
JOIN {schema}.lexicon ON lexicon.word %% asked.word
