-- Who may read what, written apart from scope.sql and visible.sql on purpose: rule by rule, each taken as a whole.
WITH rule AS (
    SELECT acl.id, acl.public, member.kind, member.principal = ANY (%(principals)s::text[]) AS held
    FROM {origin}.acl
    LEFT JOIN {origin}.acl_member AS member ON member.acl_id = acl.id
),
open AS (
    SELECT id
    FROM rule
    GROUP BY id
    HAVING (bool_or(public) OR coalesce(bool_or(held) FILTER (WHERE kind = 'allow'), false))
        AND coalesce(bool_and(held) FILTER (WHERE kind = 'require'), true)
        AND NOT coalesce(bool_or(held) FILTER (WHERE kind = 'deny'), false)
)
INSERT INTO {schema}.readable (id)
SELECT document.id
FROM {origin}.document
JOIN open ON open.id = document.acl_id
