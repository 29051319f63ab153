-- How many chunks each principal opens by itself; principals with as many are one line, with how many they are.
SELECT min(principal), chunks, count(*)
FROM (
    SELECT principal, sum(tally.chunks)::bigint AS chunks
    FROM {schema}.acl_member
    JOIN {schema}.tally USING (acl_id)
    WHERE kind = 'allow'
    GROUP BY principal
) AS counted
GROUP BY chunks
ORDER BY chunks
