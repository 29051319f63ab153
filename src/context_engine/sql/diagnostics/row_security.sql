-- Whether each guarded table has its policies, whether they bind the role that asks, and which rule they hold.
SELECT
    coalesce(array_agg(pg_class.relname::text) FILTER (WHERE relrowsecurity AND has_policy), '{{}}'),
    coalesce(array_agg(pg_class.relname::text) FILTER (WHERE NOT (relrowsecurity AND has_policy)), '{{}}'),
    coalesce(bool_or(relrowsecurity AND NOT row_security_active(pg_class.oid)), false),
    obj_description(to_regprocedure(%(function)s), 'pg_proc'),
    (SELECT proleakproof FROM pg_proc WHERE oid = 'pg_catalog.ts_match_vq(tsvector, tsquery)'::regprocedure)
FROM pg_class
JOIN pg_attribute ON attrelid = pg_class.oid
CROSS JOIN LATERAL (
    SELECT EXISTS (SELECT FROM pg_policy WHERE polrelid = pg_class.oid AND polname = 'visible') AS has_policy
) AS policy
WHERE relnamespace = to_regnamespace(%(schema_name)s) AND relkind IN ('r', 'p')
    AND attname = 'acl_id' AND NOT attisdropped AND pg_class.relname <> 'acl_member'
