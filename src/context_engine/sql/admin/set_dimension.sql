ALTER TABLE {schema}.embedding ALTER COLUMN embedding TYPE {vector_schema}.halfvec({dimension});
ALTER TABLE {schema}.embedding ALTER COLUMN embedding SET STORAGE PLAIN;
