"""Keeping the derived indexes in step with the store."""
