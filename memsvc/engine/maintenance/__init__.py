"""Maintenance steps, and their runner and scheduler."""
