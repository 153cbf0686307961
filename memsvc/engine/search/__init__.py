"""Reading: by id, by list, and by search."""
