"""The vault: memories as files that people read, edit and version."""
