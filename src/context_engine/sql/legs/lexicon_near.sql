-- Words that share a key with each word, hidden ones too: what no visible chunk holds is dropped before it can count.
SELECT asked.place - 1, lexicon.word
FROM unnest(%(keys)s::text[]) WITH ORDINALITY AS asked (keys, place)
JOIN {schema}.lexicon ON lexicon.keys && asked.keys::int[]
