-- Two locks: the role, and the mark that the engine sets for TRUSTED alone. Without the mark it is a reader like others.
GRANT SELECT ON {schema}.{table} TO {trusted};
DROP POLICY IF EXISTS trusted ON {schema}.{table};
CREATE POLICY trusted ON {schema}.{table} FOR SELECT TO {trusted}
    USING (
        (SELECT current_setting('context_engine.trusted', true) = 'on')
        OR acl_id IN (SELECT unnest((SELECT {schema}.caller_acls(true))))
    )
