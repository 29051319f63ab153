CLUSTER {schema}.chunk USING chunk_by_acl
