-- Whoever builds the vector index says so in a row, renewed as it goes on. A lock would not do: the build is many
-- transactions, and a session's locks get lost behind a pooler. A claim whose builder died is void after ten minutes.
INSERT INTO {schema}.setting (name, value) VALUES ('vector_index_build', jsonb_build_object('claimed_at', now()))
ON CONFLICT (name) DO UPDATE SET value = excluded.value
WHERE (setting.value ->> 'claimed_at')::timestamptz < now() - interval '10 minutes'
RETURNING true
