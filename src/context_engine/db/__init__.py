"""The database: connections, transactions, migrations, the embedded server. Only this layer knows the driver."""
