SELECT NULL::text, coalesce(sum(documents), 0)::bigint, coalesce(sum(chunks), 0)::bigint
FROM {schema}.tally
WHERE %(sources)s::text[] IS NULL OR source = ANY (%(sources)s::text[])
