INSERT INTO {schema}.setting (name, value) VALUES (%(name)s, %(value)s::jsonb)
