SELECT current_setting('hnsw.ef_search', true)::integer, current_setting('ivfflat.probes', true)::integer,
    current_setting('hnsw.max_scan_tuples', true)::integer
