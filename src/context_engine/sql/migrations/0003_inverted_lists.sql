-- The vector index for callers who see much: each chunk's vector as signs, filed under the nearest centroid.
DROP INDEX IF EXISTS {schema}.embedding_hnsw;
DELETE FROM {schema}.setting WHERE name = 'vector_index_build';
CREATE TABLE {schema}.centroid (
    list integer PRIMARY KEY,
    centroid halfvec NOT NULL
);
ALTER TABLE {schema}.centroid ALTER COLUMN centroid SET STORAGE PLAIN;
CREATE TABLE {schema}.code (
    document_id bigint NOT NULL,
    chunk_id bigint NOT NULL,
    acl_id integer NOT NULL,
    list integer NOT NULL,
    code bit varying NOT NULL,
    PRIMARY KEY (document_id, chunk_id, list),
    FOREIGN KEY (document_id, acl_id) REFERENCES {schema}.document (id, acl_id)
        ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
ALTER TABLE {schema}.code ALTER COLUMN code SET STORAGE PLAIN, ALTER COLUMN acl_id SET STATISTICS 10;
-- A list is read from the index alone, in this order wherever its rows lie in the table.
CREATE INDEX code_by_list ON {schema}.code (list, chunk_id) INCLUDE (document_id, acl_id, code);
