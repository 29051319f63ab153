SELECT collection.uuid::text, collection.name, count(*)
FROM {table} AS embedding
JOIN {collections} AS collection ON collection.uuid = embedding.collection_id
GROUP BY collection.uuid, collection.name
ORDER BY count(*) DESC, collection.name
