, spelling AS MATERIALIZED (
    SELECT asked.place, asked.word, asked.query, asked.dimension, asked.similarity,
        coalesce(asked.frequency, (
            SELECT count(*) FROM visible_chunk WHERE visible_chunk.lexemes @@ asked.query
        )) AS frequency
    FROM unnest(
        %(places)s::int[], %(words)s::text[], %(queries)s::tsquery[],
        %(dimensions)s::int[], %(similarities)s::float8[], %(frequencies)s::bigint[]
    ) AS asked (place, word, query, dimension, similarity, frequency)
),
kept AS (
    SELECT *, row_number() OVER (PARTITION BY place ORDER BY similarity DESC, word) AS choice
    FROM spelling
    WHERE frequency > 0
),
weighted AS (
    SELECT dimension, query,
        max(similarity * ln(1 + (%(visible_chunks)s - frequency + 0.5) / (frequency + 0.5))) AS weight
    FROM kept
    WHERE choice <= %(max_expansions)s
    GROUP BY dimension, query
),
question AS MATERIALIZED (
    SELECT
        ('{{' || string_agg(dimension || ':' || weight::real, ',' ORDER BY dimension) || '}}/1000000000')::sparsevec
            AS terms,
        string_agg(query::text, ' | ' ORDER BY dimension)::tsquery AS match
    FROM (SELECT dimension, max(weight) AS weight, min(query::text) AS query FROM weighted GROUP BY dimension) AS one
)
SELECT id, document_id, -(terms <#> (SELECT question.terms FROM question)) AS score
FROM visible_chunk
WHERE lexemes @@ (SELECT match FROM question)
ORDER BY score DESC, id
LIMIT %(limit)s
