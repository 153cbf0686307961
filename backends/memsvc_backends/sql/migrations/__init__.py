"""Migrations of the tables from one version to the next, one module each in `versions`.

Texts that a migration adds need the collation "C" on PostgreSQL, as in `versions/r0001_initial.py`.
"""
