-- How many rows each ACL value opens; values with as many rows are one line, with how many they are.
SELECT min(value), rows, count(*)
FROM (
    SELECT value, count(*) AS rows
    FROM (SELECT {value} AS value FROM {table} {sample} WHERE {base} AND {embedding} IS NOT NULL) AS held
    WHERE value IS NOT NULL
    GROUP BY value
) AS counted
GROUP BY rows
ORDER BY rows
