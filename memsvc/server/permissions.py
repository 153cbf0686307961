"""What a key must be good for to make a call: every method of the API, by name.

A method that is missing here needs an ADMIN; a test asks that none is.
"""

from __future__ import annotations

from typing import Any

from memsvc.domain.access import Role

READS = frozenset(
    {
        "GetMemory", "BatchGetMemories", "ListMemories", "ListConflicts", "ListQuarantined", "ListRevisions",
        "WatchMemories", "Search", "BatchSearch", "StreamSearch", "SearchAll", "BuildContext", "RenderContext",
        "LoadCore", "GetSession", "ListSessions", "ListMessages", "DownloadFile", "GetFile", "ListFiles",
        "ResolveFileRefs", "GetStats", "ListCheckpoints", "DiffCheckpoint", "ListDueReminders", "ExportUser",
    }
)  # fmt: skip
"""What changes nothing."""
WRITES = frozenset(
    {
        "CreateMemory", "BatchCreateMemories", "ImportMemories", "UpdateMemory", "DeleteMemory", "RestoreMemory",
        "SupersedeMemory", "ResolveConflict", "CaptureMemory", "FlushMessages", "AppendMemory", "IngestDocument",
        "ReviewMemory", "RollbackMemory", "CreateSession", "AppendMessages", "TrimSession", "CloseSession",
        "ReopenSession", "UploadFile", "DeleteFile", "CreateCheckpoint", "RollbackToCheckpoint", "PromoteMemory",
        "AcknowledgeReminder", "CheckIntegrity", "ConsolidateMemories", "UndoConsolidation", "SummarizePeriod",
        "RunMaintenance", "ArchiveMemory", "ImportUser", "EraseUser", "SyncVault",
    }
)  # fmt: skip
"""What can change what a scope names, also where a request only asks what it would change."""
KEY_METHODS = frozenset({"CreateApiKey", "ListApiKeys", "RevokeApiKey"})
ADMINS = KEY_METHODS | {"Diagnose", "GetPerformance", "Reindex", "CreateBackup", "MigrateBackend"}
"""What is about the service as a whole."""
WITHOUT_SCOPE = frozenset({"CheckIntegrity", "RunMaintenance", "SyncVault"})
"""What is about everybody when the request has no scope."""


def role_for(method: str, request: Any) -> Role:
    """Return the role that a call needs."""
    if method in READS:
        return Role.READ_ONLY
    if method in WRITES and not (method in WITHOUT_SCOPE and _lacks_scope(request)):
        return Role.READ_WRITE
    return Role.ADMIN


def is_noted(method: str) -> bool:
    """Return whether the audit log tells of every call of a method."""
    return method not in READS and method not in {"ListApiKeys", "Diagnose", "GetPerformance"}


def _lacks_scope(request: Any) -> bool:
    # What is no message (bytes that could not be read) goes on, to be refused for that.
    descriptor = getattr(request, "DESCRIPTOR", None)
    return descriptor is not None and not request.HasField("scope")
