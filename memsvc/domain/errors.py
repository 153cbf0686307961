"""Errors of the domain. `memsvc.server.error_status` maps them to gRPC codes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

UNREACHED = "cannot be reached"
"""The problem of a backend of which nothing more is known."""
RESUMES = "goes on by itself"
"""The end of a problem after which a running service needs no restart, with "it" or "the service" before it."""
UNREADABLE_INDEX = "has an index that this version of memsvc cannot read; if a newer one made it, upgrade this process"

# Base of all errors of the domain.


class MemsvcError(Exception):
    """A failure that is reported to the caller.

    Attributes:
        reason: The name of the value in `memsvc.v1.ErrorReason`.
        metadata: The values that the message quotes, by name.
    """

    reason: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, **metadata: str) -> None:
        super().__init__(message)
        self.message = message
        self.metadata = metadata


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing wrong with a request: the field's proto path, and what would be right."""

    field: str
    description: str


__all__ = ["MemsvcError", "Violation"]


class InvalidRequestError(MemsvcError):
    """A request breaks the rules of the API; nothing was changed."""

    reason = "INVALID_REQUEST"

    def __init__(self, violations: Sequence[Violation]) -> None:
        first = violations[0]
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        super().__init__(f"{first.field}: {first.description}{more}")
        self.violations = tuple(violations)


class MemoryNotFoundError(MemsvcError):
    """No memory has the id or key within the caller's reach."""

    reason = "MEMORY_NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(f"No memory {name!r} is in this scope.", memory=name)
        self.name = name


class MemoryExistsError(MemsvcError):
    """The content is stored already and the caller rejects duplicates, or another memory has the key.

    Or the memory with the key is the user's and *is_trusted_more* than what was to be written under the key.
    """

    reason = "MEMORY_EXISTS"

    def __init__(self, memory_id: str, *, key: str = "", is_trusted_more: bool = False) -> None:
        held = f"the key {key!r}" if key else "the same content"
        rest = " and is the user's, which is trusted more: change it with UpdateMemory" if is_trusted_more else ""
        super().__init__(f"The memory {memory_id!r} holds {held}{rest}.", memory_id=memory_id)
        self.memory_id = memory_id


class RevisionConflictError(MemsvcError):
    """The memory is no longer at the revision that the caller's change is based on."""

    reason = "REVISION_CONFLICT"

    def __init__(self, memory_id: str, expected: int, actual: int) -> None:
        super().__init__(
            f"Memory {memory_id!r} is at revision {actual}, not {expected}; read it again and retry.",
            memory_id=memory_id,
            expected_revision=str(expected),
            revision=str(actual),
        )


class SelectionChangedError(MemsvcError):
    """The memories that match are no longer those of the dry run."""

    reason = "SELECTION_CHANGED"

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            f"What matches has changed since the dry run, which found {expected} memories: {actual} match now, or "
            "other revisions of them. Nothing was changed; make a new dry run.",
            expected_count=str(expected),
            matched_count=str(actual),
        )


class MemorySupersededError(MemsvcError):
    """The memory was superseded or merged, so it can neither be restored, nor changed, nor superseded again."""

    reason = "MEMORY_SUPERSEDED"

    def __init__(self, memory_id: str, superseded_by_id: str) -> None:
        super().__init__(
            f"Memory {memory_id!r} was superseded by {superseded_by_id!r}: change or supersede that one.",
            memory_id=memory_id,
            superseded_by_id=superseded_by_id,
        )


class SupersedeCycleError(MemsvcError):
    """A memory would supersede itself, directly or indirectly."""

    reason = "SUPERSEDE_CYCLE"

    def __init__(self, memory_id: str, successor_id: str) -> None:
        super().__init__(
            f"Memory {successor_id!r} cannot supersede {memory_id!r}: it was itself superseded by that one, "
            "directly or indirectly.",
            memory_id=memory_id,
            successor_id=successor_id,
        )


class ConflictNotFoundError(MemsvcError):
    """No conflict has the id within the caller's reach."""

    reason = "CONFLICT_NOT_FOUND"

    def __init__(self, conflict_id: str) -> None:
        super().__init__(f"No conflict {conflict_id!r} is in this scope.", conflict_id=conflict_id)


class ConflictSettledError(MemsvcError):
    """The conflict is not open any more."""

    reason = "CONFLICT_SETTLED"

    def __init__(self, conflict_id: str, state: str) -> None:
        super().__init__(
            f"The conflict {conflict_id!r} is {state} already; list the open ones.",
            conflict_id=conflict_id,
            state=state,
        )


class RevisionNotFoundError(MemsvcError):
    """The memory has no such revision."""

    reason = "REVISION_NOT_FOUND"

    def __init__(self, memory_id: str, revision: int) -> None:
        super().__init__(
            f"Memory {memory_id!r} has no revision {revision}; ListRevisions lists the existing ones.",
            memory_id=memory_id,
            revision=str(revision),
        )


class CheckpointNotFoundError(MemsvcError):
    """No checkpoint of the scope's project has the name."""

    reason = "CHECKPOINT_NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(f"No checkpoint {name!r} is in this scope; ListCheckpoints names them.", checkpoint=name)


class CheckpointExistsError(MemsvcError):
    """A checkpoint of the scope's project has the name already."""

    reason = "CHECKPOINT_EXISTS"

    def __init__(self, name: str) -> None:
        super().__init__(f"A checkpoint {name!r} is there already; choose another name.", checkpoint=name)


class RequestIdReusedError(MemsvcError):
    """A request_id was reused for a different request."""

    reason = "REQUEST_ID_REUSED"

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"request_id {request_id!r} was used for a different request; use a fresh one.", request_id=request_id
        )


class DimensionMismatchError(MemsvcError):
    """The length of a vector does not match the index."""

    reason = "DIMENSION_MISMATCH"

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            f"The vector has {actual} dimensions; the index holds {expected}.",
            expected=str(expected),
            actual=str(actual),
        )


class CapabilityMissingError(MemsvcError):
    """The configured backend does not support the operation."""

    reason = "CAPABILITY_MISSING"

    def __init__(self, capability: str) -> None:
        super().__init__(f"The configured backend does not offer {capability}.", capability=capability)


class LimitKind(StrEnum):
    """Sorts of limits that calls are refused for."""

    WAIT = "WAIT"
    """The wait for a thread is longer than that of the call's class."""
    QUEUE = "QUEUE"
    """Too many calls wait."""
    SLOTS = "SLOTS"
    """Too many streams are open."""
    RATE = "RATE"
    """The key or tenant begins too many calls a second."""
    CONCURRENCY = "CONCURRENCY"
    """Too many calls of the key are under way."""
    QUOTA = "QUOTA"
    """The tenant or key has stored as much as it may."""
    CAPACITY = "CAPACITY"
    """Another limit of the service, such as its disk."""


class LimitExceededError(MemsvcError):
    """The service is at one of its limits; try again later."""

    reason = "LIMIT_EXCEEDED"

    def __init__(self, limit: str, *, retry_seconds: float = 0.1, kind: LimitKind = LimitKind.CAPACITY) -> None:
        super().__init__(f"The service is at its limit: {limit}.", limit=limit, kind=kind.value)
        self.retry_seconds = retry_seconds
        self.kind = kind


class QuotaExceededError(LimitExceededError):
    """A tenant or a key would store more than its quota allows; nothing was written."""

    reason = "QUOTA_EXCEEDED"

    def __init__(self, holder: str, name: str, *, amount: str, limit: int, used: int, added: int) -> None:
        named = f"{holder} {name!r}" if name else f"{holder} without a name"
        super().__init__("", kind=LimitKind.QUOTA)
        self.message = (
            f"The quota of the {named} is {limit} {amount}: it has {used}, and this call would add {added}. "
            "Nothing was stored; remove memories or files for good, or have an administrator raise the quota."
        )
        self.args = (self.message,)
        self.metadata = {
            "quota": amount.replace(" ", "_"),
            "holder": holder,
            "name": name,
            "limit": str(limit),
            "used": str(used),
            "added": str(added),
        }


class ResponseTooLargeError(MemsvcError):
    """The response of a call is larger than a message may be; a change was made all the same."""

    reason = "RESPONSE_TOO_LARGE"

    def __init__(self, *, size: int, limit: int) -> None:
        super().__init__(
            f"The response has {size} bytes, more than {limit} (setting server.max_message_bytes): request fewer "
            "items, such as by page_size, limit or ids, or fewer fields by read_mask. What the call changed is stored.",
            size_bytes=str(size),
            limit_bytes=str(limit),
        )


class BackendUnavailableError(MemsvcError):
    """A store, an index or a model cannot be reached now, or cannot be used; nothing was changed."""

    reason = "BACKEND_UNAVAILABLE"

    def __init__(self, backend: str, *, retry_seconds: float = 1.0, problem: str = UNREACHED) -> None:
        super().__init__(f"The backend {backend!r} {problem}{'' if problem.endswith('?') else '.'}", backend=backend)
        self.backend = backend
        self.problem = problem
        self.retry_seconds = retry_seconds

    def at_start(self) -> BackendUnavailableError:
        """Return the error in words for a start, after which the process ends."""
        problem = re.sub(rf"(?:it|the service) {RESUMES}", "start again", self.problem)
        return BackendUnavailableError(self.backend, retry_seconds=self.retry_seconds, problem=problem)


@contextmanager
def start_wording() -> Iterator[None]:
    """Word the errors of backends for a start."""
    try:
        yield
    except BackendUnavailableError as error:
        raise error.at_start() from error.__cause__ or error


class WriteConflictError(BackendUnavailableError):
    """A write that lost a race at each attempt; nothing was changed.

    Work that is repeated while the store is unavailable is repeated after this, too.
    """

    reason = "WRITE_CONFLICT"

    def __init__(self, *, retry_seconds: float = 0.1) -> None:
        super().__init__("metadata", retry_seconds=retry_seconds)
        self.message = (
            "Other calls changed the same memories, or took the same key or content, at each attempt of this write. "
            "Nothing was changed; try again."
        )
        self.args = (self.message,)
        self.metadata = {}


class DeadlineExceededError(MemsvcError):
    """The deadline of the call passed before the work was done."""

    reason = "DEADLINE_EXCEEDED"

    def __init__(self, waiting_for: str) -> None:
        super().__init__(f"The deadline passed while waiting for {waiting_for}.", waiting_for=waiting_for)


class NotReadyError(MemsvcError):
    """The service has just started and is still bringing its indexes up to date."""

    reason = "NOT_READY"

    def __init__(self, pending: int) -> None:
        super().__init__(f"The indexes are being brought up to date; {pending} changes are left.", pending=str(pending))
        self.retry_seconds = 0.5


class DataDirectoryLockedError(MemsvcError):
    """Another process has the data directory open."""

    reason = "DATA_DIRECTORY_LOCKED"

    def __init__(self, pid: str, addresses: Sequence[str] = ()) -> None:
        """Name the process and the addresses at which it serves, if it does."""
        serving = f", which serves at {', '.join(addresses)}" if addresses else ""
        super().__init__(
            f"The data directory is in use by the process {pid}{serving}: connect to that server, "
            "choose another --data-dir, or use a server profile.",
            pid=pid,
        )
        self.addresses = tuple(addresses)


class ReindexRunningError(MemsvcError):
    """A reindex is running; only one runs at a time."""

    reason = "REINDEX_RUNNING"

    def __init__(self) -> None:
        super().__init__("A reindex is running already; wait for it to finish.")


class MaintenanceRunningError(MemsvcError):
    """A maintenance run is active in some process; only one runs at a time on a store."""

    reason = "MAINTENANCE_RUNNING"

    def __init__(self) -> None:
        super().__init__("A maintenance run is under way already; wait for it to end. A dry run need not wait.")


class NothingToSummarizeError(MemsvcError):
    """The project has no memory of the period and topic to summarise."""

    reason = "NOTHING_TO_SUMMARIZE"

    def __init__(self, period: str, topic: str) -> None:
        of = "" if period == "all" else f" of {period!r}"
        about = f" about {topic!r}" if topic else ""
        super().__init__(
            f"The project has no memories{of}{about} to summarise: name another period or topic.",
            period=period,
            topic=topic,
        )


class SessionNotFoundError(MemsvcError):
    """No session of this id was opened in exactly the scope's project."""

    reason = "SESSION_NOT_FOUND"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"No session {session_id!r} is in this project; open it with CreateSession.", session_id=session_id
        )


class SessionExistsError(MemsvcError):
    """A session of this id was opened already."""

    reason = "SESSION_EXISTS"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"The session {session_id!r} exists; use it, reopen it with ReopenSession, or choose another id.",
            session_id=session_id,
        )


class SessionNotActiveError(MemsvcError):
    """The session is closed or archived, so it cannot be changed."""

    reason = "SESSION_NOT_ACTIVE"

    def __init__(self, session_id: str, state: str) -> None:
        super().__init__(
            f"The session {session_id!r} is {state}; reopen it with ReopenSession to go on.",
            session_id=session_id,
            state=state,
        )


class NotQuarantinedError(MemsvcError):
    """A review was given for a memory that does not wait for one."""

    reason = "NOT_QUARANTINED"

    def __init__(self, memory_id: str, status: str) -> None:
        super().__init__(
            f"Memory {memory_id!r} is {status}, not QUARANTINED; ListQuarantined lists the memories to review.",
            memory_id=memory_id,
            status=status,
        )


class CursorExpiredError(MemsvcError):
    """The changes after a cursor are no longer kept."""

    reason = "CURSOR_EXPIRED"

    def __init__(self, kept: str) -> None:
        super().__init__(
            "The changes after this cursor are no longer all kept; start a new watch without a cursor, then read the "
            "memories with ListMemories.",
            kept=kept,
        )


class WatchTooSlowError(MemsvcError):
    """A watcher reads too slowly."""

    reason = "WATCH_TOO_SLOW"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The watcher has fallen more than {limit} changes behind; read faster, and resume with the cursor of the "
            "last response.",
            limit=str(limit),
        )
        self.retry_seconds = 1.0


class ServerStoppingError(MemsvcError):
    """The server is stopping: it refuses new calls, and ends watches and calls that outlast the grace."""

    reason = "SERVER_STOPPING"

    def __init__(self) -> None:
        super().__init__("The server is stopping; call again when it is back.")
        self.retry_seconds = 1.0


class ErasureRunningError(MemsvcError):
    """The user is being erased, or was erased during the call; nothing was stored."""

    reason = "ERASURE_RUNNING"

    def __init__(self) -> None:
        message = "The user is being erased, or was while this call was under way; nothing was stored."
        super().__init__(f"{message} What is to be remembered from now on can be sent when EraseUser has returned.")


class BackupExistsError(MemsvcError):
    """A backup has the name already."""

    reason = "BACKUP_EXISTS"

    def __init__(self, backup: str) -> None:
        super().__init__(f"There is a backup named {backup!r}; choose another name.", backup=backup)


class BackupRunningError(MemsvcError):
    """A backup is running."""

    reason = "BACKUP_RUNNING"

    def __init__(self) -> None:
        super().__init__("A backup is being made; wait until it has ended.")


class VaultOffError(MemsvcError):
    """The service has no vault."""

    reason = "VAULT_OFF"

    def __init__(self) -> None:
        super().__init__("The service keeps no vault: set vault.directory and start it again.")


class BackendClosedError(MemsvcError):
    """A backend was used after it was closed: a fault of the program, not of the caller."""

    reason = "INTERNAL"

    def __init__(self, backend: str) -> None:
        super().__init__(f"The backend {backend!r} is closed.", backend=backend)


# Errors of authentication and authorisation.


class ApiKeyRequiredError(MemsvcError):
    """The call has no API key, and the service requires one."""

    reason = "API_KEY_REQUIRED"

    def __init__(self) -> None:
        super().__init__(
            "This service requires an API key: send the metadata 'authorization: Bearer KEY', or set MEMSVC_API_KEY. "
            "`memsvc keys create` creates keys."
        )


class ApiKeyInvalidError(MemsvcError):
    """The API key is malformed, unknown, expired or revoked."""

    reason = "API_KEY_INVALID"

    def __init__(self) -> None:
        super().__init__("The API key is not one of this service, or was revoked; ask for another one.")


class ApiKeyExpiredError(MemsvcError):
    """The API key has expired."""

    reason = "API_KEY_EXPIRED"

    def __init__(self, key_id: str, expire_time: datetime | None) -> None:
        until = "" if expire_time is None else expire_time.isoformat()
        super().__init__(
            f"The API key {key_id!r} expired at {until}; request another one.", key_id=key_id, expire_time=until
        )


class PermissionDeniedError(MemsvcError):
    """The caller is authenticated but not authorised."""

    reason = "PERMISSION_DENIED"

    def __init__(self, message: str, *, key_id: str = "", needed: str = "") -> None:
        super().__init__(message, key_id=key_id, needed=needed)


class ApiKeyNotFoundError(MemsvcError):
    """No key has the id."""

    reason = "API_KEY_NOT_FOUND"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"No API key has the id {key_id!r}; ListApiKeys lists the existing ones.", key_id=key_id)


# Errors of files.


class StoredFileNotFoundError(MemsvcError):
    """No file has the id within the caller's reach, or it has expired, or is not of the category of the reference."""

    reason = "FILE_NOT_FOUND"

    def __init__(self, file_id: str, fault: str = "") -> None:
        """Report the file; *fault* is what `memsvc.domain.files.fault_of_ref` says of one within reach."""
        message = f"The file {file_id!r} {fault}" if fault else f"No file {file_id!r} is in this scope"
        super().__init__(f"{message}; ListFiles names those that are there.", file_id=file_id)


class FileContentMissingError(MemsvcError):
    """The metadata of the file are stored, but not its bytes."""

    reason = "FILE_CONTENT_MISSING"

    def __init__(self, file_id: str) -> None:
        super().__init__(
            f"The bytes of the file {file_id!r} are not stored; upload the same bytes again.",
            file_id=file_id,
        )


# Errors of a migration of the store.


class StoreMovedError(MemsvcError):
    """The store was moved to another database, or a move to this one is not complete."""

    reason = "STORE_MOVED"
    retry_seconds = 2.0

    def __init__(self, message: str) -> None:
        super().__init__(message)


class MoveRefusedError(MemsvcError):
    """The store cannot be moved like this; the message says why and what to do."""

    reason = "MIGRATION_REFUSED"

    def __init__(self, message: str, *, subject: str = "target") -> None:
        super().__init__(message, subject=subject)


class MoveRunningError(MemsvcError):
    """The store is being moved already."""

    reason = "MIGRATION_RUNNING"

    def __init__(self) -> None:
        super().__init__("The store is being moved; wait until that has ended.")


class ReportedError(Exception):
    """A failure outside of calls, at a start or in a command; the message says what is wrong and what to do."""


class StoreMissingError(ReportedError):
    """The store is new or empty, and the data directory belongs to another one."""

    def __init__(self, found: str, record: str) -> None:
        """*found* is the state of the store; *record* is the file that names the other one."""
        super().__init__(
            f"{found}, but {record!r} shows that this data directory belongs to another store. Nothing was changed. "
            "Restore a backup, mount the volume of the store, or correct the settings of metadata. If the other store "
            f"is gone for good, remove {record!r}: the next start then begins with an empty store, without API keys."
        )
