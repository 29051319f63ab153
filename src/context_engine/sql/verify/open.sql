-- In the transaction of a verification, which is undone: no one else ever sees this schema.
CREATE SCHEMA {schema};
CREATE TABLE {schema}.readable (id bigint PRIMARY KEY);
