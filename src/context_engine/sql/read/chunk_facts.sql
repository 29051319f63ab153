-- What a question meets in the chunks of one document.
SELECT chunk.id, chunk.position, chunk.text,
    EXISTS (
        SELECT FROM visible_embedding AS embedding
        WHERE embedding.document_id = chunk.document_id AND embedding.chunk_id = chunk.id
    ),
    ARRAY(
        SELECT term.place::int - 1
        FROM unnest(%(queries)s::tsquery[]) WITH ORDINALITY AS term (query, place)
        WHERE chunk.lexemes @@ term.query
        ORDER BY term.place
    ),
    coalesce(chunk.lexemes @@ %(match)s::tsquery, false),
    coalesce(chunk.lexemes @@ %(unwanted)s::tsquery, false)
FROM visible_chunk AS chunk
WHERE chunk.document_id = %(document_id)s
ORDER BY chunk.position
