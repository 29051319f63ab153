INSERT INTO {schema}.tally (acl_id, source, documents, chunks)
SELECT *
FROM unnest(%(acl_ids)s::int[], %(sources)s::text[], %(documents)s::bigint[], %(chunks)s::bigint[])
