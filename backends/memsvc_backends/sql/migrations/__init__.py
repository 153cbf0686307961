"""Migrations, one module each in `versions`; texts need the collation "C" on PostgreSQL, as in `r0001_initial`."""
