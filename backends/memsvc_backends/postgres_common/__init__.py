"""The parts that both backends on PostgreSQL share: how to connect, and the watchdog and heartbeat of connections."""
