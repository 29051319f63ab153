ALTER TABLE {schema}.embedding ALTER COLUMN embedding TYPE {vector_schema}.{vector_type};
ALTER TABLE {schema}.embedding ALTER COLUMN embedding SET STORAGE PLAIN;
