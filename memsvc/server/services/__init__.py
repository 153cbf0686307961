"""One servicer for each service of the API."""
