"""Addresses of PostgreSQL, read alike by the store and by the indexes."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa


def connection_options(url: str) -> dict[str, Any]:
    """Return the arguments of `psycopg.connect` for a URL, as SQLAlchemy reads it.

    The client library reads URLs otherwise: a password with "/" and several hosts as `?host=one:5432&host=two:5432`.
    """
    target = sa.make_url(url).set(drivername="postgresql+psycopg")
    _, options = target.get_dialect()().create_connect_args(target)
    return dict(options)
