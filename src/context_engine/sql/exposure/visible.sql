SELECT count({embedding}) FROM {table} WHERE {base} AND {condition}
