"""Upkeep: the steps by which memories look after themselves, and what runs them."""
