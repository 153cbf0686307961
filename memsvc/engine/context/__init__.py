"""Contexts: what an agent should know for its next step, and what it loads at its start."""
