SELECT extname, nspname, extversion
FROM pg_extension
JOIN pg_namespace ON pg_namespace.oid = extnamespace
WHERE extname IN ('vector', 'pg_trgm')
