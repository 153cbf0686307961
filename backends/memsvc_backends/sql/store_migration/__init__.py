"""Moving the store to another database while it is used: from SQLite to PostgreSQL, back, or to another server."""
