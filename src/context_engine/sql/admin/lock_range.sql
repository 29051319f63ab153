-- The next documents, held until their vectors are filed, so that nobody changes them meanwhile.
SELECT id
FROM {schema}.document
WHERE id > %(after)s
ORDER BY id
LIMIT %(limit)s
FOR NO KEY UPDATE
