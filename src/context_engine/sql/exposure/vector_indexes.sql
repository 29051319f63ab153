-- The vector indexes on a column, each with the distance operator that its operator class serves. An index on an
-- expression counts where the expression is a cast of the column.
SELECT
    index_class.relname, access_method.amname, operator.oprname, type.typname, entry.atttypmod,
    index.indkey[0] = 0, index.indpred IS NOT NULL, index.indisvalid,
    pg_get_expr(index.indexprs, index.indrelid)
FROM pg_index AS index
JOIN pg_class AS index_class ON index_class.oid = index.indexrelid
JOIN pg_am AS access_method ON access_method.oid = index_class.relam AND amname IN ('hnsw', 'ivfflat')
JOIN pg_attribute AS entry ON entry.attrelid = index.indexrelid AND entry.attnum = 1
JOIN pg_type AS type ON type.oid = entry.atttypid
JOIN pg_opclass AS class ON class.oid = index.indclass[0]
JOIN pg_amop AS member ON member.amopfamily = class.opcfamily AND member.amoplefttype = class.opcintype
    AND member.amopstrategy = 1
JOIN pg_operator AS operator ON operator.oid = member.amopopr
WHERE index.indrelid = %(table)s::oid
    AND (
        index.indkey[0] = (SELECT attnum FROM pg_attribute WHERE attrelid = %(table)s::oid AND attname = %(column)s)
        OR index.indkey[0] = 0
    )
ORDER BY index_class.relname
