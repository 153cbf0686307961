"""Online migration of the store: from SQLite to PostgreSQL, back, or to another server."""
