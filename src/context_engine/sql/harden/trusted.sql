GRANT EXECUTE ON FUNCTION {schema}.caller_acls(boolean) TO {trusted}
