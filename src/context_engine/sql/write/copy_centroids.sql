COPY {schema}.centroid (list, centroid)
FROM STDIN WITH (FORMAT binary)
