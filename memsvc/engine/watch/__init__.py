"""Change streams for watchers."""
