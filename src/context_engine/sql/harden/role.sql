SELECT rolsuper OR rolbypassrls,
    EXISTS (
        SELECT FROM pg_class
        WHERE relnamespace = to_regnamespace(%(schema_name)s) AND pg_has_role(pg_roles.oid, relowner, 'USAGE')
    )
FROM pg_roles
WHERE rolname = %(role)s
