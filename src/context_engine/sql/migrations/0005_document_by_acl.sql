-- With the id, so that whichever index a foreign key's check goes by, it finds its one row: of an access class that is
-- new to the statistics the planner expects no rows, and reads all of them for each row that moves into it.
DROP INDEX {schema}.document_by_acl;
CREATE INDEX document_by_acl ON {schema}.document (acl_id, id);
