-- The readable rows, in another order than they came in, all in one access class, with their own counts and lexicon.
-- No document is in the tally of words, so that what the caller's tally says is held against a count.
INSERT INTO {schema}.acl (id, digest, public) VALUES (1, '\x00', false);
INSERT INTO {schema}.document (id, acl_id, source, external_id, name, metadata, content_hash)
SELECT id, 1, source, external_id, name, metadata, content_hash
FROM {origin}.document
JOIN {schema}.readable USING (id)
ORDER BY id DESC;
INSERT INTO {schema}.chunk (id, document_id, acl_id, position, content_hash, lexemes, terms, text)
SELECT chunk.id, document_id, 1, position, content_hash, lexemes, terms, text
FROM {origin}.chunk
JOIN {schema}.readable ON readable.id = document_id
ORDER BY chunk.id DESC;
INSERT INTO {schema}.embedding (chunk_id, document_id, acl_id, embedding)
SELECT chunk_id, document_id, 1, embedding
FROM {origin}.embedding
JOIN {schema}.readable ON readable.id = document_id
ORDER BY chunk_id DESC;
INSERT INTO {schema}.tally (acl_id, source, documents, chunks)
SELECT 1, source, count(*), sum((SELECT count(*) FROM {schema}.chunk WHERE chunk.document_id = document.id))
FROM {schema}.document
GROUP BY source;
INSERT INTO {schema}.lexicon (word, keys)
SELECT word, keys
FROM {origin}.lexicon
WHERE word IN (SELECT lexeme FROM {schema}.chunk CROSS JOIN unnest(chunk.lexemes));
INSERT INTO {schema}.untallied (document_id) SELECT id FROM {schema}.document;
