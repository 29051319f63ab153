SELECT
    (SELECT count(*) FROM {schema}.readable),
    (SELECT count(*) FROM {origin}.chunk WHERE document_id IN (SELECT id FROM {schema}.readable))
