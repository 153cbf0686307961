"""The demo command."""
