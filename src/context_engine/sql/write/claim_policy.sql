INSERT INTO {schema}.acl (policy, public) VALUES (%(policy)s, %(public)s)
ON CONFLICT (policy) DO UPDATE SET public = excluded.public
RETURNING id
