"""Errors of tools for the model: the argument that is wrong, and the next step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memsvc.mcp.connection import is_unreachable

if TYPE_CHECKING:
    from pydantic import ValidationError

    from memsvc.client import MemsvcCallError

UNCERTAIN = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "CANCELLED", "UNKNOWN"})
"""After these it is unknown whether a change was made."""

_ARGUMENTS = {
    "event_time": "happened",
    "tags_all": "tags",
    "time_range": "since, until",
    "time_range.start": "since",
    "time_range.end": "until",
}
"""The arguments whose names are not those of the API's fields."""
_PREFIXES = ("memory.", "filter.", "options.")
_ADVICE = {
    "MEMORY_NOT_FOUND": "Look for it with recall or recent.",
    "REVISION_CONFLICT": "Read it again with get_memory, then retry with its revision.",
    "MEMORY_SUPERSEDED": "Change the memory that took its place.",
    "MEMORY_EXISTS": "Look for it with recall, and update that one.",
    "REQUEST_ID_REUSED": "Leave out request_id: it is for repeating the very same call.",
    "NOT_READY": "The service has just started; try again in a moment.",
    "LIMIT_EXCEEDED": "Try again in a moment.",
    "WRITE_CONFLICT": "Other calls write the same at the same time.",
    "BACKEND_UNAVAILABLE": "Try again in a moment; if it stays, the user can run `memsvc diagnose`.",
    "API_KEY_REQUIRED": "The user has to set MEMSVC_API_KEY where this MCP server is configured.",
    "API_KEY_INVALID": "The user has to correct MEMSVC_API_KEY where this MCP server is configured.",
    "API_KEY_EXPIRED": "The user has to renew MEMSVC_API_KEY where this MCP server is configured.",
    "PERMISSION_DENIED": "Do not try again: the user can give this MCP server another API key.",
    "INTERNAL": "The service's log says more.",
}


def refused(error: ValidationError) -> str:
    """Say what is wrong with the arguments, each by its name."""
    broken = []
    for problem in error.errors():
        name = "".join(f"[{part}]" if isinstance(part, int) else str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            broken.append(f"{name}: there is no such argument")
        else:
            said = problem["msg"].removeprefix("Value error, ")
            broken.append(f"{name}: {said}" if name else said)
    return f"Nothing was done. {'; '.join(broken)}."


def call_failed(error: MemsvcCallError, address: str, request_id: str) -> str:
    """Say what went wrong in a call, and what to do; *request_id* is that of a change."""
    said = _said(error, address)
    if error.retry_seconds is not None:
        said = f"{said} Wait {error.retry_seconds:g} seconds."
    if request_id and error.code.name in UNCERTAIN:
        said = f'{said} To be safe repeat the same call with request_id "{request_id}": it happens only once.'
    return said


def _said(error: MemsvcCallError, address: str) -> str:
    if is_unreachable(error):
        return (
            f"The memory service at {address} cannot be reached ({error.message}). Continue without memory. Tell the"
            " user to start it with `memsvc serve`, or to correct the address of this MCP server; then call again."
        )
    if error.violations:
        broken = "; ".join(f"{_argument(each.field)}: {each.description}" for each in error.violations)
        return f"Nothing was done. {broken}."
    if error.code.name == "DEADLINE_EXCEEDED":
        return f"The memory service at {address} did not answer in time."
    advice = _ADVICE.get(error.reason, "")
    return f"{error.message}{f' {advice}' if advice else ''}"


def _argument(field: str) -> str:
    for prefix in _PREFIXES:
        field = field.removeprefix(prefix)
    name, bracket, rest = field.partition("[")
    return f"{_ARGUMENTS.get(name, name)}{bracket}{rest}"
