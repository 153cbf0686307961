"""Parts that all engine packages may use: search priority, latencies, periodic tasks, leases."""
