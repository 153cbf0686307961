"""Filters and points, the same for the embedded Qdrant and a Qdrant server."""
