-- Ordered by an expression that no vector index serves: every visible row is compared.
SELECT {key}, 0 + {distance} AS distance
FROM {table}
WHERE {base} AND {condition} AND {embedding} IS NOT NULL
ORDER BY distance
LIMIT %(limit)s
