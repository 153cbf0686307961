"""Metrics and health of the service: numbers only, never names or content of users."""
