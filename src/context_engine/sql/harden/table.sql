-- The function stands in a SELECT of its own: called once a statement, and not by the planner too.
GRANT SELECT ON {schema}.{table} TO {reader};
ALTER TABLE {schema}.{table} ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS visible ON {schema}.{table};
CREATE POLICY visible ON {schema}.{table} FOR SELECT TO {reader}
    USING (acl_id IN (SELECT unnest((SELECT {schema}.caller_acls(false)))))
