SELECT (SELECT count(*) FROM visible_document), (SELECT count(*) FROM visible_chunk)
