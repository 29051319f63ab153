DELETE FROM {schema}.setting WHERE name = 'vector_index_build'
