-- Writers wait until the end, readers do not.
LOCK TABLE {schema}.chunk IN SHARE ROW EXCLUSIVE MODE
