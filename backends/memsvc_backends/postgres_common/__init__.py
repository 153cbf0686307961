"""The parts that both backends on PostgreSQL share: the watchdog of connections, and URLs."""
