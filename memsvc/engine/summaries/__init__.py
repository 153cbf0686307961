"""Summaries of what memories say: of a daily log that has grown old, of a period, of a topic."""
