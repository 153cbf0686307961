"""Merging of equivalent memories, and its undo."""
