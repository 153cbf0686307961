"""Consolidation: memories that say the same become one, and can be taken apart again."""
