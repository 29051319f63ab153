SELECT acl.policy, acl.public,
    coalesce(array_agg(member.principal ORDER BY member.principal) FILTER (WHERE member.kind = 'allow'), '{{}}'),
    coalesce(array_agg(member.principal ORDER BY member.principal) FILTER (WHERE member.kind = 'require'), '{{}}'),
    coalesce(array_agg(member.principal ORDER BY member.principal) FILTER (WHERE member.kind = 'deny'), '{{}}')
FROM {schema}.document
JOIN {schema}.acl ON acl.id = document.acl_id
LEFT JOIN {schema}.acl_member AS member ON member.acl_id = acl.id
WHERE document.id = %(document_id)s
GROUP BY acl.id
