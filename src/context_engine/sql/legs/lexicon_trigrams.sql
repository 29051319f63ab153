-- Long words near each word, hidden ones too: what no visible chunk holds is dropped before it can count.
SELECT asked.place, lexicon.word
FROM unnest(%(places)s::int[], %(words)s::text[], %(edits)s::int[]) AS asked (place, word, edits)
JOIN {schema}.lexicon ON length(lexicon.word) >= 6 AND lexicon.word %% asked.word
WHERE length(lexicon.word) BETWEEN length(asked.word) - asked.edits AND length(asked.word) + asked.edits
