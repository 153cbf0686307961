"""As-of reads and searches, revisions, checkpoints and rollback."""
