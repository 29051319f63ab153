WITH wanted AS (
    SELECT principal, kind FROM unnest(%(principals)s::text[], %(kinds)s::text[]) AS given (principal, kind)
),
dropped AS (
    DELETE FROM {schema}.acl_member
    WHERE acl_id = %(acl_id)s AND (principal, kind) NOT IN (SELECT principal, kind FROM wanted)
)
INSERT INTO {schema}.acl_member (principal, kind, acl_id)
SELECT principal, kind, %(acl_id)s FROM wanted
ON CONFLICT DO NOTHING
