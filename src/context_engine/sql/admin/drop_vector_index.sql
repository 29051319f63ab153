DROP INDEX CONCURRENTLY IF EXISTS {schema}.embedding_hnsw
