-- What an earlier index, or a build that was interrupted, has left.
WITH codes AS (
    DELETE FROM {schema}.code WHERE list < %(first)s OR list >= %(first)s + %(lists)s
)
DELETE FROM {schema}.centroid WHERE list < %(first)s OR list >= %(first)s + %(lists)s
