SELECT
    (SELECT coalesce(sum((filters ->> 'records')::bigint), 0)::bigint FROM {schema}.audit WHERE action = 'lost'),
    (SELECT extract(epoch FROM now() - min(at))::float8 / 86400 FROM {schema}.audit)
