"""Memories as files that people read and edit."""
