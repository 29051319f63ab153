SELECT coalesce(max(list), -1) + 1 FROM {schema}.centroid
