"""Sessions: lifecycle, messages, flushing and trimming."""
