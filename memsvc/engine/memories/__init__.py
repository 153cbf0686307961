"""Writes and reads of single memories."""
