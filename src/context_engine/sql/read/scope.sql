-- The principals are joined as rows: a comparison with a long array is planned and run element by element.
WITH asked AS MATERIALIZED (
    SELECT unnest(%(principals)s::text[]) AS principal
),
allowed AS (
    SELECT acl_id FROM asked JOIN {schema}.acl_member USING (principal) WHERE kind = 'allow'
    UNION
    SELECT id FROM {schema}.acl WHERE public
),
visible AS MATERIALIZED (
    SELECT acl_id
    FROM allowed
    WHERE NOT EXISTS (
        SELECT FROM {schema}.acl_member AS member
        WHERE member.acl_id = allowed.acl_id AND member.kind <> 'allow'
            AND (member.kind = 'deny' AND member.principal IN (SELECT principal FROM asked)
                OR member.kind = 'require' AND member.principal NOT IN (SELECT principal FROM asked))
    )
),
-- As one array, for the index of the tally to be gone through once and not once for each class.
listed AS MATERIALIZED (
    SELECT array_agg(acl_id ORDER BY acl_id) AS acls FROM visible
)
SELECT
    coalesce((SELECT acls FROM listed), '{{}}')::text,
    coalesce(sum(tally.documents), 0)::bigint,
    coalesce(sum(tally.chunks), 0)::bigint,
    (SELECT count(*) FROM (SELECT FROM {schema}.untallied LIMIT 1000) AS fresh)
FROM {schema}.tally
WHERE tally.acl_id = ANY ((SELECT acls FROM listed)::int[])
    AND (%(sources)s::text[] IS NULL OR tally.source = ANY (%(sources)s::text[]))
