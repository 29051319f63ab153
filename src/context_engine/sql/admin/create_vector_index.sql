CREATE INDEX CONCURRENTLY IF NOT EXISTS embedding_hnsw
ON {schema}.embedding USING hnsw (embedding {vector_schema}.halfvec_ip_ops)
WITH (m = {hnsw_m}, ef_construction = {hnsw_ef_construction})
