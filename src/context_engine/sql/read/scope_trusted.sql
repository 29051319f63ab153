SELECT NULL::text, coalesce(sum(documents), 0)::bigint, coalesce(sum(chunks), 0)::bigint,
    (SELECT count(*) FROM (SELECT FROM {schema}.untallied LIMIT 1000) AS fresh)
FROM {schema}.tally
WHERE %(sources)s::text[] IS NULL OR source = ANY (%(sources)s::text[])
