SELECT
    (SELECT count(*) FROM {schema}.document),
    (SELECT count(*) FROM {schema}.chunk),
    (SELECT count(*) FROM {schema}.embedding),
    (SELECT count(*) FROM {schema}.acl WHERE policy IS NULL),
    (SELECT count(*) FROM {schema}.acl WHERE policy IS NOT NULL),
    (SELECT coalesce(sum(documents), 0)::bigint FROM {schema}.tally),
    (SELECT coalesce(sum(chunks), 0)::bigint FROM {schema}.tally)
