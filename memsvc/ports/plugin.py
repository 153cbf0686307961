"""Plug-in interface of backends: the object that an entry point resolves to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from memsvc.ports.faults import FaultLog

T = TypeVar("T")


class BackendSettings(BaseModel):
    """Base of every backend's options: frozen, and a name that does not exist is refused by name.

    Attributes:
        from_metadata: Options that are the metadata store's when they are not given, such as where the database is.
    """

    from_metadata: ClassVar[tuple[str, ...]] = ()

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True)
class KnownStore:
    """The metadata store that a data directory belongs to.

    Attributes:
        identity: Its `ChangeFeed.identity`.
        record: The file in the data directory that says so.
    """

    identity: str
    record: Path


@dataclass(frozen=True, slots=True)
class BackendContext:
    """Context that the process passes to a backend in addition to its options.

    Attributes:
        directory: A folder of this backend's own in the data directory; the backend makes it when it needs it.
        now: The clock, in UTC.
        faults: The record of faults that the metrics show.
        known_store: For a metadata store: the one that the data directory belongs to, if any. A store that would have
            to be created, or that has another identity and was never written to, raises `StoreMissingError` instead
            of opening, and changes nothing.
    """

    directory: Path
    now: Callable[[], datetime]
    faults: FaultLog = field(default_factory=FaultLog)
    known_store: KnownStore | None = None


@dataclass(frozen=True, slots=True)
class BackendSpec(Generic[T]):
    """Specification of a backend: the object that an entry point resolves to.

    Attributes:
        settings: The model that the options of the backend are checked against, before anything is opened.
        open: Opens the backend; leaving the context closes it and gives everything back.
    """

    settings: type[BackendSettings]
    open: Callable[[Any, BackendContext], AbstractContextManager[T]]
