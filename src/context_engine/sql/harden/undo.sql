DROP FUNCTION IF EXISTS {schema}.visible_acls(boolean)
