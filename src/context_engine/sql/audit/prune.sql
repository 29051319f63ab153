-- A part at a time, so that no transaction is long; from the oldest on.
DELETE FROM {schema}.audit
WHERE id IN (
    SELECT id FROM {schema}.audit
    WHERE at < now() - make_interval(secs => %(older_than_s)s)
    ORDER BY at, id
    LIMIT %(limit)s
)
