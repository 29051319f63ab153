-- What callers asked and what they were given; written, where the settings say so, by the audit trail, and only ever
-- added to until its time is over. The id comes with the record: one that is sent again is kept once.
CREATE TABLE {schema}.audit (
    id uuid PRIMARY KEY,
    at timestamptz NOT NULL,
    action text NOT NULL,
    -- NULL is TRUSTED.
    principals text[],
    query text,
    query_hash bytea,
    filters jsonb NOT NULL,
    document_ids bigint[] NOT NULL,
    chunk_ids bigint[] NOT NULL,
    legs jsonb NOT NULL,
    duration_ms double precision NOT NULL,
    error text
);
CREATE INDEX audit_by_time ON {schema}.audit (at, id);
CREATE INDEX audit_lost ON {schema}.audit (at) WHERE action = 'lost';
