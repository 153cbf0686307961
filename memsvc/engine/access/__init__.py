"""Keys: made, revoked, and known again in every call."""
