"""Shared runtime parts: search priority, latency statistics, periodic tasks, leases."""
