"""Summaries of daily logs, periods and topics."""
