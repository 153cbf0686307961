"""Carrying all that is kept of a user away and in."""
