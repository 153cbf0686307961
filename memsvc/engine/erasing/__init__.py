"""Forgetting a user for good."""
