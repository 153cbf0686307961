"""Requests of AdminService, decoded and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from memsvc.domain import limits
from memsvc.domain.api_keys import KEY_ID, ApiKeyRole, Quota, QuotaSubject, Usage
from memsvc.domain.diagnostics import ORPHAN_GRACE, FileCleanup, IndexKind, ReindexMode
from memsvc.domain.scope import Reach, Scope
from memsvc.engine.admin.api_keys import NewApiKey
from memsvc.engine.admin.backup import NAME, UNFINISHED
from memsvc.engine.admin.store_migration import MoveAction
from memsvc.engine.vault.sync import SyncPlan
from memsvc.ports.operations import MoveChanges, MoveTarget
from memsvc.server import call_context, tokens
from memsvc.server.enums import (
    API_KEY_ROLE,
    INDEX_KIND,
    MIGRATION_ACTION,
    REINDEX_MODE,
)
from memsvc.server.requests.decoder import RequestDecoder, unique
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb

PlaceList: TypeAlias = (
    "admin_pb.ListUsersRequest | admin_pb.ListProjectsRequest | admin_pb.ListAgentsRequest"
    " | memory_pb.ListScopesRequest"
)
_MAX_GRACE_SECONDS = limits.ORPHAN_GRACE_DAYS * 24 * 60 * 60
_NANOS = 1_000_000_000
_POSITION_DIGITS = 18
_URL_SCHEMES = ("postgresql://", "postgres://")
_SCOPE_PARTS = ("project_id", "agent_id", "session_id")


def get_stats_request(message: admin_pb.GetStatsRequest) -> Scope:
    """Return the scope to count."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    decoder.finish()
    return scope


def reindex_request(message: admin_pb.ReindexRequest) -> tuple[Sequence[IndexKind], ReindexMode]:
    """Return the indexes to rebuild or repair, in the order of the enum; all when none is named."""
    decoder = RequestDecoder()
    decoder.enums("indexes", message.indexes, INDEX_KIND.from_proto, count=limits.INDEXES)
    mode = decoder.enum("mode", message.mode, REINDEX_MODE, ReindexMode.REBUILD)
    decoder.finish()
    indexes = [INDEX_KIND.from_proto[number] for number in sorted(set(message.indexes))]
    return indexes or list(IndexKind), mode


def get_performance_request(message: admin_pb.GetPerformanceRequest) -> tuple[str, timedelta | None]:
    """Return the operation to report, empty for all, and the length of the window, None without one."""
    decoder = RequestDecoder()
    operation = decoder.text("operation", message.operation, most=limits.OPERATION)
    window = None
    if message.HasField("window"):
        window = decoder.duration("window", message.window, most_days=limits.PERFORMANCE_DAYS)
    decoder.finish()
    return operation, window


@dataclass(frozen=True, slots=True)
class CheckIntegrity:
    """A check of an owner's memories, or with *reach* None of all memories."""

    reach: Reach | None
    cleaning: FileCleanup


def check_integrity_request(message: admin_pb.CheckIntegrityRequest) -> CheckIntegrity:
    """Return the memories to check, and the files to remove."""
    decoder = RequestDecoder()
    scope = decoder.scope_unless_all(message, decoder.scope)
    grace = ORPHAN_GRACE
    if message.HasField("orphan_grace"):
        seconds, nanos = message.orphan_grace.seconds, message.orphan_grace.nanos
        if 0 <= nanos < _NANOS and (0, 0) <= (seconds, nanos) <= (_MAX_GRACE_SECONDS, 0):
            grace = message.orphan_grace.ToTimedelta()
        else:
            decoder.add("orphan_grace", f"must be a Duration of 0 to {limits.ORPHAN_GRACE_DAYS} days")
    if message.ignore_files:
        for name in ("remove_broken_refs", "remove_orphan_files"):
            if getattr(message, name):
                decoder.add(name, "must not be set together with ignore_files")
    decoder.finish()
    cleaning = FileCleanup(
        removes_broken_refs=message.remove_broken_refs,
        removes_orphan_files=message.remove_orphan_files,
        grace=grace,
        is_off=message.ignore_files,
    )
    return CheckIntegrity(None if scope is None else Reach.from_scope(scope), cleaning)


def create_backup_request(message: admin_pb.CreateBackupRequest) -> str:
    """Return the name of the backup; empty: the engine chooses one."""
    decoder = RequestDecoder()
    if message.name and not (NAME.fullmatch(message.name) and not message.name.endswith(UNFINISHED)):
        characters = "must be 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'"
        decoder.add("name", f"{characters}, begin with a letter or digit, and not end in {UNFINISHED!r}")
    decoder.finish()
    return message.name


def migrate_backend_request(message: admin_pb.MigrateBackendRequest) -> tuple[MoveTarget, MoveAction, MoveChanges]:
    """Return the store to move to, and what becomes of changes that prevent undoing."""
    decoder = RequestDecoder()
    store, url = message.target.WhichOneof("store"), message.target.postgresql_url
    if store is None:
        decoder.add("target.store", "is required: postgresql_url or embedded")
    if store == "postgresql_url":
        # It may hold a password: descriptions of violations do not quote it.
        field = "target.postgresql_url"
        if not url.startswith(_URL_SCHEMES):
            decoder.add(field, "must be like postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
        if len(url) > limits.DATABASE_URL:
            decoder.add(field, f"must have at most {limits.DATABASE_URL} characters")
        if not url.isprintable():
            decoder.add(field, "must not contain control characters")
    action = decoder.enum("action", message.action, MIGRATION_ACTION, MoveAction.RUN)
    if message.discard_changes and action is not MoveAction.UNDO:
        decoder.add("discard_changes", "goes with the action UNDO alone")
    decoder.finish()
    return MoveTarget(url), action, MoveChanges.DISCARD if message.discard_changes else MoveChanges.KEEP


def create_api_key_request(message: admin_pb.CreateApiKeyRequest) -> tuple[NewApiKey, str]:
    """Return the key to create, and the request id."""
    decoder = RequestDecoder()
    name = decoder.name("name", message.name, most=limits.KEY_NAME)
    role = decoder.enum("role", message.role, API_KEY_ROLE, ApiKeyRole.READ_WRITE)
    key = NewApiKey(
        name=name,
        role=role,
        tenant_id=decoder.name("tenant_id", message.tenant_id, most=limits.SCOPE_ID),
        user_ids=_key_bounds(decoder, "user_ids", message.user_ids, role),
        project_ids=_key_bounds(decoder, "project_ids", message.project_ids, role),
        expire_time=decoder.optional_time("expire_time", message, "expire_time"),
        ttl=decoder.ttl("ttl", message.ttl) if message.HasField("ttl") else None,
        calls_per_second=decoder.number("calls_per_second", message.calls_per_second, most=limits.KEY_RATE),
        concurrent_calls=decoder.integer("concurrent_calls", message.concurrent_calls, least=1, most=limits.KEY_RATE),
    )
    request_id = decoder.request_id(message.request_id)
    decoder.finish()
    return key, request_id


def list_api_keys_request(message: admin_pb.ListApiKeysRequest) -> tuple[str, int]:
    """Return the id of the last key of the page before, and the size of the page."""
    decoder = RequestDecoder()
    limit = decoder.page_size(message.page_size)
    after = ""
    if message.page_token:
        after = decoder.token(tokens.keys_after, message.page_token, tokens.digest(message), default="")
    decoder.finish()
    return after, limit


@dataclass(frozen=True, slots=True)
class ListUsers:
    """A page of users of a tenant, after the id *after*; only those in *only*, unless it is empty."""

    tenant_id: str
    only: tuple[str, ...]
    prefix: str
    after: str
    limit: int


def list_users_request(message: admin_pb.ListUsersRequest) -> ListUsers:
    """Return the page to list: users of the caller's tenant, only those that its key is restricted to."""
    decoder = RequestDecoder()
    principal = call_context.principal.get()
    after = decode_place(decoder, message, "", parts=1)
    request = ListUsers(
        tenant_id=principal.tenant_id,
        only=tuple(sorted(principal.user_ids)),
        prefix=decoder.name("id_prefix", message.id_prefix, most=limits.USER_ID),
        after=after[-1] if after else "",
        limit=decoder.page_size(message.page_size),
    )
    decoder.finish()
    return request


@dataclass(frozen=True, slots=True)
class ListPlaces:
    """A page of projects or agents of an owner; only those of the projects in *only*, unless it is empty."""

    owner: str
    only: tuple[str, ...]
    prefix: str
    after: tuple[str, ...]
    limit: int


def list_projects_request(message: admin_pb.ListProjectsRequest) -> ListPlaces:
    """Return the page to list, of the projects that the caller's key is authorised for."""
    decoder = RequestDecoder()
    return _list_places(decoder, message, decoder.projects(message), parts=1)


def list_agents_request(message: admin_pb.ListAgentsRequest) -> ListPlaces:
    """Return the page to list, of the requested project or of those that the caller's key is authorised for."""
    decoder = RequestDecoder()
    return _list_places(decoder, message, decoder.projects(message), parts=2)


def _list_places(
    decoder: RequestDecoder,
    message: admin_pb.ListProjectsRequest | admin_pb.ListAgentsRequest,
    only: tuple[str, ...],
    *,
    parts: int,
) -> ListPlaces:
    owner = decoder.owner(message.user_id)
    request = ListPlaces(
        owner=owner,
        only=only,
        prefix=decoder.name("id_prefix", message.id_prefix, most=limits.SCOPE_ID),
        after=decode_place(decoder, message, owner, parts=parts),
        limit=decoder.page_size(message.page_size),
    )
    decoder.finish()
    return request


def decode_place(decoder: RequestDecoder, message: PlaceList, owner: str, *, parts: int) -> tuple[str, ...]:
    """Return the place that a page comes after: the owner and the *parts* in its token; none for the first page."""
    if not message.page_token:
        return ()
    none: tuple[str, ...] = ()
    found = decoder.token(tokens.place_after, message.page_token, tokens.digest(message), parts=parts, default=none)
    return (owner, *found)


def revoke_api_key_request(message: admin_pb.RevokeApiKeyRequest) -> tuple[str, str]:
    """Return the id of the key to revoke, and the request id."""
    decoder = RequestDecoder()
    if not KEY_ID.fullmatch(message.id):
        decoder.add("id", "must be the id of a key: 20 hexadecimal digits in lower case, as ListApiKeys returns it")
    request_id = decoder.request_id(message.request_id)
    decoder.finish()
    return message.id, request_id


@dataclass(frozen=True, slots=True)
class SetQuota:
    """A quota to set; the use of a key may be set to 0."""

    quota: Quota
    resets_use: bool


def set_quota_request(message: admin_pb.SetQuotaRequest) -> SetQuota:
    """Return the quota to set."""
    decoder = RequestDecoder()
    given = message.quota
    subject, name = _quota_subject(decoder, given, "quota.")
    rate = decoder.number("quota.calls_per_second", given.calls_per_second, most=limits.KEY_RATE)
    amounts = {
        name: decoder.integer(f"quota.{name}", getattr(given, name), least=1, most=limits.QUOTA, zero="no limit")
        for name in ("memory_count", "content_bytes", "file_bytes")
    }
    if message.reset_use and subject is QuotaSubject.TENANT:
        decoder.add("reset_use", "goes with an API key alone: the use of a tenant is what it has stored")
    decoder.finish()
    return SetQuota(Quota(subject, name, rate, Usage(*amounts.values())), message.reset_use)


def get_quota_request(message: admin_pb.GetQuotaRequest) -> tuple[QuotaSubject, str]:
    """Return the holder of the quota."""
    decoder = RequestDecoder()
    holder = _quota_subject(decoder, message)
    decoder.finish()
    return holder


def list_quotas_request(message: admin_pb.ListQuotasRequest) -> tuple[tuple[QuotaSubject, str] | None, int]:
    """Return the holder of the last quota of the page before, and the size of the page."""
    decoder = RequestDecoder()
    limit = decoder.page_size(message.page_size)
    after = None
    if message.page_token:
        digest = tokens.digest(message)
        after = decoder.token(tokens.quotas_after, message.page_token, digest, default=(QuotaSubject.KEY, ""))
    decoder.finish()
    return after, limit


def list_dead_letters_request(message: admin_pb.ListDeadLettersRequest) -> tuple[tuple[str, int], int]:
    """Return the endpoint and the position of the last dead letter of the page before, and the size of the page."""
    decoder = RequestDecoder()
    decoder.name("endpoint", message.endpoint, most=limits.WEBHOOK_NAME)
    limit = decoder.page_size(message.page_size)
    first: tuple[str, ...] = ()
    place = decoder.token(tokens.place_after, message.page_token, tokens.digest(message), parts=2, default=first)
    position = place[1] if place else "-1"
    if place and not (position.isascii() and position.isdigit() and len(position) <= _POSITION_DIGITS):
        decoder.add("page_token", "must be the next_page_token of the same list")
    decoder.finish()
    return (place[0] if place else "", int(position)), limit


def check_dead_letters(message: admin_pb.RetryDeadLettersRequest | admin_pb.DropDeadLettersRequest) -> None:
    """Return when the request names an endpoint, and not too many events.

    Raises:
        InvalidRequestError: It does not.
    """
    decoder = RequestDecoder()
    decoder.name("endpoint", message.endpoint, most=limits.WEBHOOK_NAME, least=1)
    decoder.count("event_ids", message.event_ids, most=limits.PAGE_SIZE)
    decoder.finish()


def _quota_subject(
    decoder: RequestDecoder, message: admin_pb.Quota | admin_pb.GetQuotaRequest, prefix: str = ""
) -> tuple[QuotaSubject, str]:
    match message.WhichOneof("subject"):
        case "tenant_id":
            return QuotaSubject.TENANT, decoder.name(f"{prefix}tenant_id", message.tenant_id, most=limits.SCOPE_ID)
        case "api_key_id":
            if not KEY_ID.fullmatch(message.api_key_id):
                decoder.add(f"{prefix}api_key_id", "must be the id of a key: 20 hexadecimal digits in lower case")
            return QuotaSubject.KEY, message.api_key_id
        case _:
            decoder.add(f"{prefix}tenant_id", "is required, unless api_key_id is given")
            return QuotaSubject.TENANT, ""


def sync_vault_request(message: admin_pb.SyncVaultRequest) -> SyncPlan:
    """Return the vault of a user, or all vaults, to synchronise."""
    decoder = RequestDecoder()
    reason = "the vault is synchronised by user"
    scope = decoder.scope_unless_all(message, lambda scope: decoder.scope_of_user(scope, *_SCOPE_PARTS, reason=reason))
    decoder.finish()
    return SyncPlan(scope, is_forced=message.rewrite_all, is_dry=message.dry_run)


def _key_bounds(decoder: RequestDecoder, field: str, values: Sequence[str], role: ApiKeyRole) -> tuple[str, ...]:
    if role is ApiKeyRole.ADMIN and values:
        decoder.add(field, "must be empty for the role ADMIN, which is about everybody")
        return ()
    decoder.count(field, values, most=limits.KEY_BOUNDS)
    for index, value in enumerate(values[: limits.KEY_BOUNDS]):
        decoder.name(f"{field}[{index}]", value, most=limits.SCOPE_ID, least=1)
    return unique(values)
