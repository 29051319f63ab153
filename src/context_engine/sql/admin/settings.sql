SELECT name, value FROM {schema}.setting
