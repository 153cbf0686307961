"""Looking back and going back: revisions, what was known at a moment, checkpoints."""
