"""Rules for moving the store."""

from __future__ import annotations

from memsvc.engine.admin.store_migration import MoveAction
from memsvc.server.convert.migration import ACTION, action_from
from memsvc.server.validate.values import check_enum
from memsvc.server.validate.violations import Violations
from memsvc.v1 import migration_pb2 as pb

URL_CHARS = 2048
_SCHEMES = ("postgresql://", "postgres://")


def check_migrate_backend(request: pb.MigrateBackendRequest) -> None:
    """Check a request to move the store."""
    found = Violations()
    store = request.target.WhichOneof("store")
    if store is None:
        found.add("target.store", "is required: postgresql_url or embedded")
    if store == "postgresql_url":
        _check_url(found, request.target.postgresql_url)
    check_enum(found, "action", request.action, ACTION.from_proto)
    if request.discard_changes and action_from(request) is not MoveAction.UNDO:
        found.add("discard_changes", "goes with the action UNDO alone")
    found.finish()


def _check_url(found: Violations, url: str) -> None:
    # It may hold a password: what is wrong with it is told without quoting it.
    field = "target.postgresql_url"
    if not url.startswith(_SCHEMES):
        found.add(field, "must be like postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
    if len(url) > URL_CHARS:
        found.add(field, f"must have at most {URL_CHARS} characters")
    if not url.isprintable():
        found.add(field, "must not contain control characters")
