-- The nearest rows of all, exactly, and whether the caller may see each.
SELECT {key}, visible
FROM (
    SELECT {key}, 0 + {distance} AS distance, {condition} AS visible
    FROM {table}
    WHERE {base} AND {embedding} IS NOT NULL
    ORDER BY distance
    LIMIT %(limit)s
) AS nearest
