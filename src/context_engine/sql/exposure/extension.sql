SELECT nspname, extversion
FROM pg_extension
JOIN pg_namespace ON pg_namespace.oid = extnamespace
WHERE extname = 'vector'
