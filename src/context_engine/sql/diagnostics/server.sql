SELECT current_setting('server_version'), current_setting('server_version_num')::integer, current_database(),
    current_user, rolsuper, rolbypassrls, pg_encoding_to_char(encoding)
FROM pg_catalog.pg_roles, pg_catalog.pg_database
WHERE rolname = current_user AND datname = current_database()
