SELECT count(*) FROM (SELECT FROM {schema}.untallied LIMIT 1000) AS fresh
