-- Short words that come out alike once a letter is left out of either; hidden ones too, as in lexicon_trigrams.sql.
SELECT asked.place, lexicon.word
FROM unnest(%(places)s::int[], %(deletions)s::text[]) AS asked (place, deletions)
JOIN {schema}.lexicon ON lexicon.deletions && asked.deletions::int[]
