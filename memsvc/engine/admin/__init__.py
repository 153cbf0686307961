"""Looking after the service: counts, health and repair."""
