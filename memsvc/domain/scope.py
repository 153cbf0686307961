"""Scope of a caller, and the reach that its reads are held to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

OWNER_SEPARATOR = "\x1f"
"""Joins tenant and user in an owner. Validation refuses control characters, so it occurs in neither."""


class Visibility(StrEnum):
    """Projects whose memories a read may see."""

    PROJECT_AND_GLOBAL = "PROJECT_AND_GLOBAL"
    PROJECT = "PROJECT"
    GLOBAL = "GLOBAL"


class SessionVisibility(StrEnum):
    """Private memories that a read may see: those of the scope's session, or of all sessions of the user."""

    CURRENT = "CURRENT"
    ALL = "ALL"


@dataclass(frozen=True, slots=True)
class Scope:
    """Location of a memory or of a caller: user, project, agent and session.

    The tenant comes from the authenticated principal, never from a request. An empty project means global.
    """

    user_id: str
    project_id: str = ""
    agent_id: str = ""
    session_id: str = ""
    tenant_id: str = ""

    @property
    def owner(self) -> str:
        """Return the one exact key under which all data of this tenant's user are kept."""
        return f"{self.tenant_id}{OWNER_SEPARATOR}{self.user_id}"


@dataclass(frozen=True, slots=True)
class Reach:
    """All that a read may ever see: one owner's memories in the given projects.

    Every store and index must hold every read to it, whatever filter comes with it. Comparison is by whole,
    exact strings: the owner "acme" never matches "acme-corp".
    """

    owner: str
    project_ids: tuple[str, ...]

    @classmethod
    def from_scope(cls, scope: Scope, visibility: Visibility = Visibility.PROJECT_AND_GLOBAL) -> Reach:
        """Return what a caller in *scope* may see: its project and the global memories, or one of the two."""
        projects = {
            Visibility.PROJECT_AND_GLOBAL: (scope.project_id, ""),
            Visibility.PROJECT: (scope.project_id,),
            Visibility.GLOBAL: ("",),
        }[visibility]
        return cls(scope.owner, tuple(dict.fromkeys(projects)))
