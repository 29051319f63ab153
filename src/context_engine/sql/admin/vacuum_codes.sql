VACUUM (ANALYZE) {schema}.code
