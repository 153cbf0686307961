"""Contradictions between memories: found when one is written, kept, and settled; and the chains of supersession."""
