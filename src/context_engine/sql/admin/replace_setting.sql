INSERT INTO {schema}.setting (name, value) VALUES (%(name)s, %(value)s::jsonb)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
