"""Detection and resolution of conflicts, and supersession links."""
