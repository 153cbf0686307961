"""Contexts for the next step of an agent, and its core memories."""
