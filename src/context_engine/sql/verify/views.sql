-- Where a copy would be too large: the readable rows where they lie. A spelling counts where a readable chunk holds it.
CREATE VIEW {schema}.document AS
SELECT * FROM {origin}.document WHERE id IN (SELECT id FROM {schema}.readable);
CREATE VIEW {schema}.chunk AS
SELECT * FROM {origin}.chunk WHERE document_id IN (SELECT id FROM {schema}.readable);
CREATE VIEW {schema}.embedding AS
SELECT * FROM {origin}.embedding WHERE document_id IN (SELECT id FROM {schema}.readable);
CREATE VIEW {schema}.lexicon AS
SELECT * FROM {origin}.lexicon
WHERE EXISTS (
    SELECT FROM {schema}.chunk
    WHERE chunk.lexemes @@ ('''' || replace(replace(word, '\', '\\'), '''', '''''') || '''')::tsquery
);
CREATE TABLE {schema}.tally AS
SELECT 1 AS acl_id, source, count(*) AS documents,
    sum((SELECT count(*) FROM {schema}.chunk WHERE chunk.document_id = document.id))::bigint AS chunks
FROM {schema}.document
GROUP BY source;
CREATE VIEW {schema}.code AS
SELECT * FROM {origin}.code WHERE document_id IN (SELECT id FROM {schema}.readable);
CREATE TABLE {schema}.setting (name text, value jsonb);
-- Nothing is in the tally of words, so that what the caller's tally says is held against a count.
CREATE TABLE {schema}.word_tally (word text, acl_id integer, chunks integer);
CREATE VIEW {schema}.untallied AS SELECT id AS document_id FROM {schema}.readable;
ANALYZE {schema}.readable, {schema}.tally;
