"""Retrieval, ranking and hydration."""
