-- Names of keys and types of values in the first rows; no value leaves the server.
SELECT key, jsonb_typeof(value), count(*)
FROM (
    SELECT {column}::jsonb AS document FROM {table} WHERE {column} IS NOT NULL AND {base} LIMIT 1000
) AS sampled, jsonb_each(CASE WHEN jsonb_typeof(document) = 'object' THEN document END)
GROUP BY key, jsonb_typeof(value)
ORDER BY key
