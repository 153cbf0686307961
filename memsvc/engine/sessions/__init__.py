"""Sessions: opening and closing them, appending messages, reading them, trimming them at their limit."""
