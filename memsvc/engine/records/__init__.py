"""Building and changing the records that the store keeps of memories."""
