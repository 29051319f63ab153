WITH asked AS (
    SELECT DISTINCT digest, public
    FROM unnest(%(digests)s::bytea[], %(public)s::bool[]) AS given (digest, public)
),
created AS (
    INSERT INTO {schema}.acl (digest, public)
    SELECT digest, public FROM asked
    WHERE NOT EXISTS (SELECT FROM {schema}.acl WHERE acl.digest = asked.digest)
    ORDER BY digest
    ON CONFLICT (digest) DO NOTHING
    RETURNING id, digest
)
INSERT INTO {schema}.acl_member (principal, kind, acl_id)
SELECT member.principal, member.kind, created.id
FROM unnest(%(member_digests)s::bytea[], %(principals)s::text[], %(kinds)s::text[])
    AS member (digest, principal, kind)
JOIN created USING (digest)
