SELECT (value ->> 'first')::int, (value ->> 'lists')::int, (value ->> 'chunks')::bigint
FROM {schema}.setting
WHERE name = 'vector_index'
