-- Every relation with a vector column, each with all of its columns. A partition stands only for itself.
SELECT
    class.oid::bigint, namespace.nspname, class.relname,
    quote_ident(namespace.nspname) || '.' || quote_ident(class.relname),
    class.relkind::text, greatest(class.reltuples, 0)::bigint, class.relrowsecurity, class.relispartition,
    has_table_privilege(class.oid, 'SELECT') OR has_any_column_privilege(class.oid, 'SELECT'),
    attribute.attname, quote_ident(attribute.attname),
    type_namespace.nspname, type.typname, attribute.atttypmod,
    array_namespace.nspname, array_type.typname, type.typcategory = 'A',
    has_column_privilege(class.oid, attribute.attnum, 'SELECT')
FROM pg_class AS class
JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid AND attribute.attnum > 0 AND NOT attribute.attisdropped
JOIN pg_type AS type ON type.oid = attribute.atttypid
JOIN pg_namespace AS type_namespace ON type_namespace.oid = type.typnamespace
LEFT JOIN pg_type AS array_type ON array_type.oid = type.typarray
LEFT JOIN pg_namespace AS array_namespace ON array_namespace.oid = array_type.typnamespace
WHERE class.relkind IN ('r', 'p', 'm', 'v', 'f')
    AND namespace.nspname NOT LIKE 'pg\_%%' AND namespace.nspname <> 'information_schema'
    AND has_schema_privilege(namespace.oid, 'USAGE')
    AND class.oid IN (
        SELECT vector.attrelid
        FROM pg_attribute AS vector
        JOIN pg_type ON pg_type.oid = vector.atttypid
        JOIN pg_extension ON pg_extension.extnamespace = pg_type.typnamespace AND extname = 'vector'
        WHERE typname IN ('vector', 'halfvec', 'sparsevec') AND NOT vector.attisdropped
    )
ORDER BY class.oid, attribute.attnum
