"""The part that both backends on PostgreSQL share: the watchdog of connections."""
