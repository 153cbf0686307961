"""Telling watchers what changes."""
