SELECT to_regclass(%(migration_table)s) IS NOT NULL, to_regnamespace(%(schema_name)s) IS NOT NULL
