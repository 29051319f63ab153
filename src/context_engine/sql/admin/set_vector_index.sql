INSERT INTO {schema}.setting (name, value) VALUES ('vector_index', %(state)s::jsonb)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
