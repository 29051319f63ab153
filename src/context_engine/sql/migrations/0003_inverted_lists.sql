-- With the document, so that checking a document's rows when its access class changes never reads a whole class.
DROP INDEX {schema}.chunk_by_acl, {schema}.embedding_by_acl;
CREATE INDEX chunk_by_acl ON {schema}.chunk (acl_id, document_id);
CREATE INDEX embedding_by_acl ON {schema}.embedding (acl_id, document_id);

-- The vector index for callers who see much: each chunk's vector filed under the nearest
-- centroid, as the signs of its difference to it and the mean size of the difference in a dimension.
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
    scale real NOT NULL,
    code bit varying NOT NULL,
    PRIMARY KEY (document_id, chunk_id, list),
    FOREIGN KEY (document_id, acl_id) REFERENCES {schema}.document (id, acl_id)
        ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
ALTER TABLE {schema}.code ALTER COLUMN code SET STORAGE PLAIN, ALTER COLUMN acl_id SET STATISTICS 10;
-- A list is read from the index alone, in this order wherever its rows lie in the table.
CREATE INDEX code_by_list ON {schema}.code (list, chunk_id) INCLUDE (document_id, acl_id, scale, code);
