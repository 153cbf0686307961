"""Streams: imports, and the bytes of files."""
