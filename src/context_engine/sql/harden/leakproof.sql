-- Lets the index on lexemes be used below a row-level policy.
ALTER FUNCTION pg_catalog.ts_match_vq(tsvector, tsquery) LEAKPROOF
