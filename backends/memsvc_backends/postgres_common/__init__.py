"""The parts that both backends on PostgreSQL share: how to connect, and the watchdog of connections."""
