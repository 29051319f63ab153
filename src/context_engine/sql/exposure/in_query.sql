SELECT {key}, {distance}
FROM {table}
WHERE {base} AND {condition}
ORDER BY {order}
LIMIT %(limit)s
