"""Extraction of memories from text."""
