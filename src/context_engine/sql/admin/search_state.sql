-- About how many chunks there are, and the vector index in force, if any.
SELECT stored.reltuples, (value ->> 'first')::int, (value ->> 'lists')::int, (value ->> 'chunks')::bigint
FROM pg_class AS stored
LEFT JOIN {schema}.setting ON name = 'vector_index'
WHERE stored.oid = '{schema}.chunk'::regclass
