SELECT {vector_schema}.halfvec_send(embedding)
FROM {schema}.embedding TABLESAMPLE BERNOULLI (%(percent)s) REPEATABLE (0)
