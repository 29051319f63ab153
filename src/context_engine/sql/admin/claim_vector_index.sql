-- Whoever builds the vector index says so in a row. A lock would not do: the build is outside any transaction, and a
-- session's locks get lost behind a pooler. A claim whose builder died is void after ten minutes.
INSERT INTO {schema}.setting (name, value) VALUES ('vector_index_build', jsonb_build_object('claimed_at', now()))
ON CONFLICT (name) DO UPDATE SET value = excluded.value
WHERE (setting.value ->> 'claimed_at')::timestamptz < now() - interval '10 minutes'
    AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index WHERE relid = to_regclass(%(embedding_table)s))
RETURNING true
