"""What check-acl-exposure shows on 100,000 rows in three layouts of permissions."""
