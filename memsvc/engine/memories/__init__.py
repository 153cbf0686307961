"""Writing: one path from a draft to a durable memory."""
