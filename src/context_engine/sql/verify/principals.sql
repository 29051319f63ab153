SELECT principal
FROM {schema}.acl_member
GROUP BY principal
ORDER BY md5(principal || %(seed)s), principal
LIMIT %(limit)s
