"""Fault campaign: a server under load, faults at random moments, and invariants after each."""
