SELECT digest, policy, id
FROM {schema}.acl
WHERE digest = ANY (%(digests)s::bytea[]) OR policy = ANY (%(policies)s::text[])
