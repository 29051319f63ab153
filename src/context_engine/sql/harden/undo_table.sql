DROP POLICY IF EXISTS visible ON {schema}.{table};
DROP POLICY IF EXISTS trusted ON {schema}.{table};
ALTER TABLE {schema}.{table} DISABLE ROW LEVEL SECURITY
