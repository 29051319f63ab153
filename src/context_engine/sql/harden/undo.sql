DROP FUNCTION IF EXISTS {schema}.caller_acls(boolean)
