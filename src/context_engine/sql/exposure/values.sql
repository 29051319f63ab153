-- How many rows each ACL value opens, with how many values open as many; of those up to 16 are named.
SELECT value, rows, alike
FROM (
    SELECT value, rows, count(*) OVER (PARTITION BY rows) AS alike,
        row_number() OVER (PARTITION BY rows ORDER BY hashtext(value), value) AS place
    FROM (
        SELECT value, count(*) AS rows
        FROM (SELECT {value} AS value FROM {table} {sample} WHERE {base} AND {embedding} IS NOT NULL) AS held
        WHERE value IS NOT NULL
        GROUP BY value
    ) AS counted
) AS ranked
WHERE place <= 16
ORDER BY rows, place
