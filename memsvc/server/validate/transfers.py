"""Rules for what is done with all of a user, and for backups."""

from __future__ import annotations

from memsvc.engine.admin.backup import NAME, UNFINISHED
from memsvc.server.convert.enums import WAIT_FOR
from memsvc.server.validate.scopes import check_request_id, check_scope
from memsvc.server.validate.values import check_enum
from memsvc.server.validate.violations import Violations
from memsvc.v1 import backup_pb2, erasure_pb2, transfer_pb2
from memsvc.v1 import types_pb2 as types


def check_export_user(request: transfer_pb2.ExportUserRequest) -> None:
    """Check a request for all of a user."""
    found = Violations()
    _check_user(found, request.scope)
    found.finish()


def check_import_user_header(header: transfer_pb2.ImportUserHeader) -> None:
    """Check into whom to import."""
    found = Violations()
    _check_user(found, header.scope, field="header.scope")
    check_enum(found, "header.wait_for", header.wait_for, WAIT_FOR.from_proto)
    found.finish()


def check_erase_user(request: erasure_pb2.EraseUserRequest) -> None:
    """Check a request to forget a user."""
    found = Violations()
    _check_user(found, request.scope)
    check_request_id(found, request.request_id)
    found.finish()


def check_create_backup(request: backup_pb2.CreateBackupRequest) -> None:
    """Check a request for a backup."""
    found = Violations()
    if request.name and not (NAME.fullmatch(request.name) and not request.name.endswith(UNFINISHED)):
        found.add("name", "must be 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', beginning with a letter or digit")
    found.finish()


def _check_user(found: Violations, scope: types.Scope, *, field: str = "scope") -> None:
    check_scope(found, scope, field=field)
    for name in ("project_id", "agent_id", "session_id"):
        if getattr(scope, name):
            found.add(f"{field}.{name}", "must be empty: this is about all that the user has")
