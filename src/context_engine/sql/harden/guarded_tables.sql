-- Every table whose rows belong to an access class.
SELECT relname::text
FROM pg_class
JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relnamespace = to_regnamespace(%(schema_name)s) AND relkind IN ('r', 'p')
    AND attname = 'acl_id' AND NOT attisdropped AND relname <> 'acl_member'
ORDER BY relname
