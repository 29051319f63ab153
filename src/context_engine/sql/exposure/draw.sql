-- Rows to ask with, chosen by a hash of where they lie: the same again as long as the table stays as it is.
SELECT {key}, drawn::text
FROM (
    SELECT {key}, {embedding} AS drawn
    FROM {table}
    WHERE {base} AND {condition} AND {embedding} IS NOT NULL
    ORDER BY hashtextextended(ctid::text, %(seed)s::bigint)
    LIMIT %(limit)s
) AS chosen
