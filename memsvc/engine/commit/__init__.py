"""Group commit, commit pipelines and idempotent requests."""
