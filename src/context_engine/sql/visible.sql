-- The one place that says which rows a statement may see. A line marked "if" stays only where it applies: "scoped" for
-- every caller but TRUSTED, the others for the filters that the call gives. Legs mark lines alike. The condition on the
-- access class is written in four ways, by how the statement finds its rows, so that neither planning nor running it takes
-- time for each class of a long list: by class, through the index of classes; by list, where the planner weighs that
-- index against other ways; by row, where many rows are found otherwise and each is looked up in a hashed list; by key,
-- where few are.
visible_document AS NOT MATERIALIZED (
    SELECT id, acl_id, source, external_id, name, metadata
    FROM {schema}.document
    WHERE true
        AND acl_id = ANY ((SELECT %(visible_acls)s::int[])::int[])                -- if scoped by class
        AND acl_id = ANY (%(visible_acls)s::int[])                                -- if scoped by list
        AND (acl_id IN (SELECT unnest(%(visible_acls)s::int[]))) IS TRUE          -- if scoped by row
        AND acl_id + 0 = ANY ((SELECT %(visible_acls)s::int[])::int[])            -- if scoped by key
        AND source = ANY (%(sources)s::text[])                                    -- if sources
        AND id = ANY (%(documents)s::bigint[])                                    -- if documents
        AND metadata @@ %(metadata)s::jsonpath                                    -- if metadata
),
visible_chunk AS NOT MATERIALIZED (
    SELECT id, document_id, position, text, lexemes, terms
    FROM {schema}.chunk
    WHERE true
        AND acl_id = ANY ((SELECT %(visible_acls)s::int[])::int[])                -- if scoped by class
        AND acl_id = ANY (%(visible_acls)s::int[])                                -- if scoped by list
        AND (acl_id IN (SELECT unnest(%(visible_acls)s::int[]))) IS TRUE          -- if scoped by row
        AND acl_id + 0 = ANY ((SELECT %(visible_acls)s::int[])::int[])            -- if scoped by key
        AND document_id = ANY (%(documents)s::bigint[])                           -- if documents
        AND document_id IN (SELECT id FROM visible_document)                      -- if filtered
),
visible_embedding AS NOT MATERIALIZED (
    SELECT chunk_id, document_id, embedding
    FROM {schema}.embedding
    WHERE true
        AND acl_id = ANY ((SELECT %(visible_acls)s::int[])::int[])                -- if scoped by class
        AND acl_id = ANY (%(visible_acls)s::int[])                                -- if scoped by list
        AND (acl_id IN (SELECT unnest(%(visible_acls)s::int[]))) IS TRUE          -- if scoped by row
        AND acl_id + 0 = ANY ((SELECT %(visible_acls)s::int[])::int[])            -- if scoped by key
        AND document_id = ANY (%(documents)s::bigint[])                           -- if documents
        AND document_id IN (SELECT id FROM visible_document)                      -- if filtered
),
visible_code AS NOT MATERIALIZED (
    SELECT document_id, chunk_id, list, scale, code
    FROM {schema}.code
    WHERE true
        AND (acl_id IN (SELECT unnest(%(visible_acls)s::int[]))) IS TRUE          -- if scoped
        AND document_id = ANY (%(documents)s::bigint[])                           -- if documents
        AND document_id IN (SELECT id FROM visible_document)                      -- if filtered
),
-- Words by access class, which knows no filters: with one it holds nothing.
visible_word_tally AS NOT MATERIALIZED (
    SELECT word, chunks
    FROM {schema}.word_tally
    WHERE true
        AND (acl_id IN (SELECT unnest(%(visible_acls)s::int[]))) IS TRUE          -- if scoped
        AND false                                                                 -- if narrowed
)
