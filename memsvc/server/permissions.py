"""What a key must be good for to make a call: every method of the API, by name.

A method that is missing here needs an ADMIN; a test asks that none is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message

from memsvc.domain.api_keys import Role

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
"""What can change what a scope names."""
LOOKS: Mapping[str, Mapping[str, bool]] = {
    "CaptureMemory": {"dry_run": True},
    "CheckIntegrity": {"repair": False, "remove_broken_refs": False, "remove_orphan_files": False},
    "ConsolidateMemories": {"dry_run": True},
    "EraseUser": {"confirm": False},
    "RollbackToCheckpoint": {"dry_run": True},
    "RunMaintenance": {"dry_run": True},
    "SyncVault": {"dry_run": True},
}
"""Those of `WRITES` that change nothing, and only say what they would, when the request's fields are as named here."""
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
        return Role.READ_ONLY if _only_looks(method, request) else Role.READ_WRITE
    return Role.ADMIN


def is_noted(method: str) -> bool:
    """Return whether the audit log tells of every call of a method."""
    return method not in READS and method not in {"ListApiKeys", "Diagnose", "GetPerformance"}


def _only_looks(method: str, request: Any) -> bool:
    """Return whether a request says itself that it changes nothing; a stream of requests says nothing beforehand."""
    if method not in LOOKS or not isinstance(request, Message):
        return False
    return all(getattr(request, name) is wanted for name, wanted in LOOKS[method].items())


def _lacks_scope(request: Any) -> bool:
    # What is no message (bytes that could not be read) goes on, to be refused for that.
    return isinstance(request, Message) and not request.HasField("scope")
