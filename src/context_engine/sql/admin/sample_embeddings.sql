SELECT {vector_schema}.halfvec_send(embedding::{vector_schema}.halfvec)
FROM {schema}.embedding TABLESAMPLE BERNOULLI (%(percent)s) REPEATABLE (0)
