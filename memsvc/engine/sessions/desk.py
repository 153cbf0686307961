"""All that can be done with sessions, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from memsvc.engine.sessions.append import Appending
from memsvc.engine.sessions.flush import Flushing
from memsvc.engine.sessions.reading import ReadingSessions
from memsvc.engine.sessions.service import Opening
from memsvc.engine.sessions.trim import Trimming


@dataclass(frozen=True, slots=True)
class SessionService:
    """The use cases of sessions."""

    opening: Opening
    appending: Appending
    reading: ReadingSessions
    trimming: Trimming
    flushing: Flushing
