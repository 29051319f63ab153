SELECT coalesce(bool_or(indisvalid), false), count(*) > 0
FROM pg_index
WHERE indexrelid = to_regclass(%(vector_index)s)
