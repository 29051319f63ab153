SELECT {vector_schema}.halfvec_send(centroid)
FROM {schema}.centroid
WHERE list >= %(first)s AND list < %(first)s + %(lists)s
ORDER BY list
