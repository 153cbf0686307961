"""Administration of the service: counts, health and repair."""
