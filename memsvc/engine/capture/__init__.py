"""Capture: from what was said to what is remembered."""
