SELECT available.name, available.default_version, pg_extension.extversion, pg_namespace.nspname
FROM pg_catalog.pg_available_extensions AS available
LEFT JOIN pg_catalog.pg_extension ON extname = available.name
LEFT JOIN pg_catalog.pg_namespace ON pg_namespace.oid = extnamespace
WHERE available.name IN ('vector', 'pg_trgm')
