GRANT EXECUTE ON FUNCTION {schema}.visible_acls(boolean) TO {trusted}
