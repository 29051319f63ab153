-- Visible rows from the lists nearest to the question, until there are enough of them; ranked by their centroid and their
-- signs around it, the best scored exactly. Hidden rows take no place, so a caller who sees little of a list is taken to
-- more lists.
, nearest_list AS MATERIALIZED (
    SELECT list, -(centroid <#> %(halved)s::halfvec) AS product
    FROM {schema}.centroid
    WHERE list >= %(first)s AND list < %(first)s + %(lists)s
    ORDER BY product DESC, list
),
wanted AS (
    (
        SELECT document_id, chunk_id
        FROM (
            SELECT filed.document_id, filed.chunk_id, filed.scale, filed.code, nearest_list.product
            FROM nearest_list
            CROSS JOIN LATERAL (
                SELECT document_id, chunk_id, scale, code
                FROM visible_code
                WHERE visible_code.list = nearest_list.list
                    AND NOT EXISTS (                                                     -- if excluded
                        SELECT FROM visible_chunk                                        -- if excluded
                        WHERE visible_chunk.document_id = visible_code.document_id       -- if excluded
                            AND visible_chunk.id = visible_code.chunk_id                 -- if excluded
                            AND visible_chunk.lexemes @@ %(excluded)s::tsquery           -- if excluded
                    )                                                                    -- if excluded
                ORDER BY chunk_id
            ) AS filed
            LIMIT %(rows)s
        ) AS seen
        ORDER BY scale * (%(most)s - %(weight)s * (code <~> %(signs)s) - %(other_weight)s * (code <~> %(other_signs)s))
            + product DESC, chunk_id
        LIMIT %(rescored)s
    )
    UNION ALL                                                                            -- if untallied
    SELECT document_id, chunk_id                                                         -- if untallied
    FROM visible_embedding                                                               -- if untallied
    WHERE document_id IN (SELECT document_id FROM {schema}.untallied)                    -- if untallied
        AND NOT EXISTS (                                                                 -- if untallied and excluded
            SELECT FROM visible_chunk                                                    -- if untallied and excluded
            WHERE visible_chunk.document_id = visible_embedding.document_id              -- if untallied and excluded
                AND visible_chunk.id = visible_embedding.chunk_id                        -- if untallied and excluded
                AND visible_chunk.lexemes @@ %(excluded)s::tsquery                       -- if untallied and excluded
        )                                                                                -- if untallied and excluded
)
SELECT chunk_id, document_id, -(embedding <#> %(embedding)s) AS score
FROM wanted
JOIN visible_embedding USING (document_id, chunk_id)
ORDER BY score DESC, chunk_id
LIMIT %(limit)s
