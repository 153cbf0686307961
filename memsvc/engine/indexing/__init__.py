"""Maintenance of the derived indexes."""
