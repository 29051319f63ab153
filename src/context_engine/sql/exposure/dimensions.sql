SELECT DISTINCT {vector_schema}.vector_dims({embedding})
FROM (SELECT {embedding} FROM {table} WHERE {embedding} IS NOT NULL AND {base} LIMIT 1000) AS sampled
