SELECT {key}, distance
FROM (
    SELECT {key}, {distance} AS distance, {condition} AS visible
    FROM {table}
    WHERE {base}
    ORDER BY {order}
    LIMIT %(limit)s
) AS fetched
WHERE visible
