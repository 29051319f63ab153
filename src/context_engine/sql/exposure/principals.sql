-- How many chunks each principal opens by itself, with how many principals open as many; of those up to 16 are named.
SELECT principal, chunks, alike
FROM (
    SELECT principal, chunks, count(*) OVER (PARTITION BY chunks) AS alike,
        row_number() OVER (PARTITION BY chunks ORDER BY hashtext(principal), principal) AS place
    FROM (
        SELECT principal, sum(tally.chunks)::bigint AS chunks
        FROM {schema}.acl_member
        JOIN {schema}.tally USING (acl_id)
        WHERE kind = 'allow'
        GROUP BY principal
    ) AS counted
) AS ranked
WHERE place <= 16
ORDER BY chunks, place
