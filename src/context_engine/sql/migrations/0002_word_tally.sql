-- How many chunks of each access class hold each word: only ever added to, folded when documents are counted in.
CREATE TABLE {schema}.word_tally (
    word text NOT NULL,
    acl_id integer NOT NULL,
    chunks integer NOT NULL
);
CREATE INDEX word_tally_by_word ON {schema}.word_tally (word, acl_id) INCLUDE (chunks);
-- What was taken away and not folded yet.
CREATE INDEX word_tally_taken ON {schema}.word_tally (word, acl_id) WHERE chunks < 0;

-- Documents whose words are not in the tally: a search reads their chunks instead.
CREATE TABLE {schema}.untallied (
    document_id bigint PRIMARY KEY REFERENCES {schema}.document (id) ON DELETE CASCADE
);
INSERT INTO {schema}.untallied SELECT id FROM {schema}.document;
