SELECT acl.policy, acl.public,
    coalesce(array_agg(member.principal ORDER BY member.principal) FILTER (WHERE member.kind = 'allow'), '{{}}'),
    coalesce(array_agg(member.principal ORDER BY member.principal) FILTER (WHERE member.kind = 'require'), '{{}}'),
    coalesce(array_agg(member.principal ORDER BY member.principal) FILTER (WHERE member.kind = 'deny'), '{{}}')
FROM {schema}.acl
LEFT JOIN {schema}.acl_member AS member ON member.acl_id = acl.id
WHERE acl.policy IS NOT NULL
GROUP BY acl.id
ORDER BY acl.policy
