SELECT id
FROM {origin}.document
WHERE id >= %(start)s AND id NOT IN (SELECT id FROM {schema}.readable)
ORDER BY id
LIMIT %(limit)s
