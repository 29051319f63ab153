SELECT count(*), count({embedding}) FROM {table} WHERE {base}
