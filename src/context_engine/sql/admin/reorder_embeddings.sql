CLUSTER {schema}.embedding USING embedding_by_acl
