SELECT jsonb_typeof(document #> %(path)s::text[]), count(*)
FROM (
    SELECT {column}::jsonb AS document FROM {table} WHERE {column} IS NOT NULL AND {base} LIMIT 1000
) AS sampled
WHERE document #> %(path)s::text[] IS NOT NULL
GROUP BY 1
