"""Extraction of text from files, in child processes with limits."""
