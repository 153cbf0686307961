"""What turns text into terms, pieces and dates, the same for every backend."""
