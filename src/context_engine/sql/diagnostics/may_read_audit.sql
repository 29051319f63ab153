SELECT has_table_privilege(to_regclass(%(audit_table)s), 'SELECT')
