"""Analysis of text into terms, chunks and dates, the same for every backend."""
