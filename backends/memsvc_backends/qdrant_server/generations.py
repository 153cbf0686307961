"""Generations as collections of a server, one of them live: the one that the alias names.

All who share the server follow the alias, which moves in one step. A collection's metadata hold the manifest of its
generation, and when it was last known to be in use: so leftovers of a dead process differ from a generation that
another process is building.

A write has entries for the generation whose manifest was read. If the alias has moved since, the write fails
afterwards, and the caller repeats it with entries for the next one. A write to the earlier generation is not lost:
the switching process applies the last changes again.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from qdrant_client import models

from memsvc.domain.errors import UNREADABLE_INDEX, BackendClosedError, BackendUnavailableError, ReindexRunningError
from memsvc.domain.index_entries import LexicalManifest, VectorManifest, content_of, manifest_of
from memsvc_backends.qdrant_server.connection import AbsentError, ServerConnection
from memsvc_backends.qdrant_server.points import SHARED_SHARDS, ShardKeys
from memsvc_backends.qdrant_server.settings import QdrantServerSettings

_log = logging.getLogger(__name__)
_MANIFEST, _WANTED, _TENANTS = "memsvc", "memsvc_wanted", "memsvc_tenants"
TOO_OLD = "keeps no metadata of collections: a server of version 1.16 or newer is needed"
SWITCHED = "was switched to another generation meanwhile; the change is repeated"
_LOOK_SECONDS = 10.0
"""Interval of the removal of unused collections."""
_GRACE_SECONDS = 0.25
"""How long a call waits for word of which generation is live when it knows one: a server that hangs takes no longer."""
E = TypeVar("E")
_TOUCH_SECONDS = 30.0
FORMAT = 1
"""Raise it with every change of payloads, of the hash of terms or of the manifest: such an index is rebuilt."""
M = TypeVar("M")


class CollectionManifest(Protocol):
    """Common fields of manifests."""

    @property
    def generation(self) -> int:
        """Return the number of the generation."""
        ...


Manifest = TypeVar("Manifest", bound=CollectionManifest)


@dataclass(frozen=True, slots=True)
class LiveCollection(Generic[Manifest]):
    """A generation: its collection, and its manifest."""

    collection: str
    manifest: Manifest
    metadata: Mapping[str, Any]

    @property
    def shard_keys(self) -> ShardKeys:
        """Return the shards by tenant."""
        return ShardKeys(self.metadata.get(_TENANTS) or ())


class CollectionGenerations(Generic[Manifest]):
    """The generations on the server: reads, creation, switches and the removal of leftovers."""

    def __init__(
        self,
        connection: ServerConnection,
        settings: QdrantServerSettings,
        alias: str,
        codec: tuple[Callable[[Manifest], str], Callable[[str], Manifest]],
        now: Callable[[], datetime],
    ) -> None:
        self.alias = alias
        self._connection = connection
        self._settings = settings
        self._text_of, self._manifest_of = codec
        self._now = now
        # No other installation's, whose prefix begins like ours.
        self._ours = re.compile(rf"({re.escape(alias)}-(\d{{6,}})-[0-9a-f]{{8}})(-[a-z]+)?$")
        self._live: LiveCollection[Manifest] | None = None
        self._known_until = -1.0
        self._looked = -1.0
        self._foreign = ""
        self._left: set[str] = set()
        self._refreshing = threading.Lock()
        self._found: Callable[[LiveCollection[Manifest]], None] | None = None
        self._kept_house = ""
        self._pinned = threading.local()

    def on_found(self, listener: Callable[[LiveCollection[Manifest]], None]) -> None:
        """Call *listener* once with each live collection that this process did not make."""
        self._found = listener

    def live(self) -> LiveCollection[Manifest] | None:
        """Return the live generation, as of a moment ago; while the server is unreachable, the last known one.

        Its absence is always read afresh: otherwise a writer would treat its changes as written.

        Raises:
            BackendUnavailableError: The server cannot be reached, and none is known.
        """
        self._connection.require_open()
        if self._live is None:
            with self._refreshing:
                self.refresh()
        elif time.monotonic() >= self._known_until and self._refreshing.acquire(blocking=False):
            asking = threading.Thread(target=self._refresh_in_background, name="qdrant-refresh", daemon=True)
            try:
                asking.start()
            except RuntimeError as error:
                # The process has as many threads as it may; the next search tries again.
                self._refreshing.release()
                _log.warning("the live generation was not asked for: %s", error)
            else:
                asking.join(_GRACE_SECONDS)
        self._pinned.live = self._live
        return self._live

    def live_for_write(self) -> LiveCollection[Manifest] | None:
        """Return the generation of the entries of this thread: the one whose manifest it read last."""
        self._connection.require_open()
        seen: LiveCollection[Manifest] | None = getattr(self._pinned, "live", None)
        if seen is None or seen.collection in self._left:
            return self.live()
        return seen

    def confirm(self, written: LiveCollection[Manifest]) -> None:
        """Raise BackendUnavailableError unless the generation is live still."""
        now_live = self.refresh()
        if now_live is None or now_live.collection != written.collection:
            raise BackendUnavailableError(self._connection.name, problem=SWITCHED)

    def refresh(self) -> LiveCollection[Manifest] | None:
        """Ask the server which generation is live.

        Raises:
            BackendUnavailableError: The server cannot be reached.
        """
        for _ in range(3):
            name = self._read_alias()
            if name is None or (self._live is not None and self._live.collection == name):
                return self._keep(None if name is None else self._live)
            try:
                return self._keep(self._read_metadata(name))
            except AbsentError:
                continue
        raise BackendUnavailableError(self._connection.name)

    def create(self, manifest: Manifest, extra: Mapping[str, Any], **arguments: Any) -> LiveCollection[Manifest]:
        """Make the collection of a generation.

        Raises:
            ReindexRunningError: Another process has just made one of this number, or of a later one.
            BackendUnavailableError: The server cannot be reached, or keeps no metadata.
        """
        before = self.refresh()
        if before is not None and manifest.generation <= before.manifest.generation:
            raise ReindexRunningError
        # A name of its own, for another process may be making, or have left, one of the same number.
        name = self._kept_house = f"{self.alias}-{manifest.generation:06d}-{secrets.token_hex(4)}"
        metadata = {_MANIFEST: self._text_of(manifest), _WANTED: self._seconds(), **extra}
        if tenants := list(self._settings.tenants.own_shards):
            metadata[_TENANTS] = tenants
            arguments["sharding_method"] = models.ShardingMethod.CUSTOM
        self.collection(name, metadata=metadata, **arguments)
        if not (self._connection.ask("get_collection", collection_name=name).config.metadata or {}).get(_MANIFEST):
            self.remove(name)
            raise BackendUnavailableError(self._connection.name, problem=TOO_OLD)
        made = LiveCollection(name, manifest, metadata)
        self._create_shards(made)
        return made

    def _create_shards(self, made: LiveCollection[Manifest]) -> None:
        """Create the shards of each key of a collection, if tenants have some of their own."""
        settings = self._settings
        for key in made.shard_keys.all or ():
            number = settings.shards if key == SHARED_SHARDS else settings.tenants.shards
            self._connection.settle(
                partial(self._has_shards, made.collection, key),
                "create_shard_key",
                collection_name=made.collection,
                shard_key=key,
                shards_number=number,
                replication_factor=settings.replicas,
            )

    def _has_shards(self, collection: str, key: models.ShardKey) -> bool:
        found = self._connection.ask("collection_cluster_info", collection_name=collection)
        return any(one.shard_key == key for one in (*found.local_shards, *found.remote_shards))

    def collection(self, name: str, **arguments: Any) -> None:
        """Make a collection as the settings say."""
        settings = self._settings
        chosen = {
            "shard_number": settings.shards,
            "replication_factor": settings.replicas,
            "write_consistency_factor": settings.write_consistency,
            "on_disk_payload": settings.storage.payload_on_disk,
            "optimizers_config": settings.optimizer.config,
            "wal_config": settings.wal.config,
            "strict_mode_config": settings.strict_mode.config,
        }
        self._connection.settle(
            lambda: self._exists(name), "create_collection", collection_name=name, **chosen | arguments
        )

    def touch(self, name: str) -> None:
        """Note that a collection is wanted now; the next time is soon, so one that fails is not repeated."""
        self._connection.settle(
            lambda: True, "update_collection", collection_name=name, metadata={_WANTED: self._seconds()}
        )

    def switch(self, made: LiveCollection[Manifest]) -> None:
        """Move the alias; the generation before lingers for those who have not noticed.

        Raises:
            BackendUnavailableError: The server cannot be reached, or another process was quicker.
        """
        before = self.refresh()
        if before is not None and before.manifest.generation >= made.manifest.generation:
            raise BackendUnavailableError(self._connection.name, problem=SWITCHED)
        create = models.CreateAlias(collection_name=made.collection, alias_name=self.alias)
        steps: list[models.AliasOperations] = [models.CreateAliasOperation(create_alias=create)]
        if before is not None:
            self.touch(before.collection)
            leave = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self.alias))
            steps.insert(0, leave)
            self._left.add(before.collection)
        self._connection.settle(
            lambda: self._read_alias() == made.collection, "update_collection_aliases", change_aliases_operations=steps
        )
        self._keep(made)
        self.remove_leftovers()

    def remove(self, name: str) -> None:
        """Remove a collection, if it is there; one that cannot be removed now is a leftover for later."""
        try:
            self._connection.settle(lambda: True, "delete_collection", collection_name=name)
        except AbsentError:
            return

    def keep_house(self) -> None:
        """Remove leftovers, and have a live collection that this process did not make brought up to date.

        Raises:
            BackendUnavailableError: The server cannot be reached.
        """
        self.remove_leftovers()
        live = self._live
        if live is None or self._found is None or live.collection == self._kept_house:
            return
        try:
            self._found(live)
        except AbsentError:
            return
        self._kept_house = live.collection

    def remove_leftovers(self) -> None:
        """Remove the collections that are not live and that have not been used for a while, at intervals."""
        if time.monotonic() < self._looked + _LOOK_SECONDS and self._looked >= 0:
            return
        self._looked = time.monotonic()
        live = self._read_alias()
        found = self._connection.ask("get_collections").collections
        shapes = [shape for shape in map(self._ours.match, (one.name for one in found)) if shape]
        names = {shape[0] for shape in shapes}
        reached = max((int(shape[2]) for shape in shapes if shape[0] == live), default=0)
        for name, whole, number, suffix in ((shape[0], *shape.groups()) for shape in shapes):
            # The vocabulary of a collection is removed after it.
            if suffix and whole not in names:
                self.remove(name)
            elif not suffix and name != live:
                self._remove_if_old(name, is_passed=int(number) <= reached)

    def _remove_if_old(self, name: str, *, is_passed: bool) -> None:
        patience = self._settings.linger_seconds if is_passed else self._settings.leftover_seconds
        try:
            metadata = self._connection.ask("get_collection", collection_name=name).config.metadata or {}
        except AbsentError:
            return
        wanted = metadata.get(_WANTED)
        if isinstance(wanted, int | float) and self._seconds() - wanted > patience:
            _log.info("collection %s is not wanted any more and is removed", name)
            self.remove(name)

    def _refresh_in_background(self) -> None:
        try:
            self.refresh()
            # Here, since ping may never be called: the earlier generation contains erased data, too.
            self.keep_house()
        except BackendUnavailableError:
            self._known_until = time.monotonic() + self._settings.refresh_seconds
        except BackendClosedError:
            _log.debug("closed while it was asked which generation is live")
        finally:
            self._refreshing.release()

    def _keep(self, live: LiveCollection[Manifest] | None) -> LiveCollection[Manifest] | None:
        self._live = live
        self._known_until = time.monotonic() + self._settings.refresh_seconds
        return live

    def _exists(self, name: str) -> bool:
        try:
            self._connection.ask("get_collection", collection_name=name)
        except AbsentError:
            return False
        return True

    def _read_alias(self) -> str | None:
        aliases = self._connection.ask("get_aliases").aliases
        return next((str(one.collection_name) for one in aliases if one.alias_name == self.alias), None)

    def _read_metadata(self, name: str) -> LiveCollection[Manifest] | None:
        metadata = self._connection.ask("get_collection", collection_name=name).config.metadata or {}
        try:
            return LiveCollection(name, self._manifest_of(str(metadata.get(_MANIFEST))), metadata)
        except NewerManifestError as error:
            # Not a missing index: to build one would replace that of the newer version.
            raise BackendUnavailableError(self._connection.name, problem=UNREADABLE_INDEX) from error
        except ForeignManifestError as error:
            level = logging.DEBUG if name == self._foreign else logging.WARNING
            _log.log(level, "collection %s is of another format and is rebuilt: %s", name, error)
            self._foreign = name
            return None

    def _seconds(self) -> int:
        return int(self._now().timestamp())


# A generation that is being made on a Qdrant server.


class ServerGeneration(Generic[E, Manifest]):
    """A collection without an alias. For one thread at a time."""

    def __init__(
        self,
        generations: CollectionGenerations[Manifest],
        made: LiveCollection[Manifest],
        write: Callable[[LiveCollection[Manifest], Mapping[int, Sequence[E]]], None],
        remove: Callable[[str], None],
    ) -> None:
        self.made = made
        self._generations = generations
        self._write = write
        self._remove = remove
        self._is_sealed = False
        self._is_over = False
        self._touched = time.monotonic()

    def replace(self, changes: Mapping[int, Sequence[E]]) -> None:
        """Replace the entries of each memory."""
        self._write(self.made, changes)
        if time.monotonic() > self._touched + _TOUCH_SECONDS:
            self._touched = time.monotonic()
            self._generations.touch(self.made.collection)

    def seal(self) -> None:
        """Finish the bulk load: the server packs it and builds its graphs in the background."""
        self._generations.touch(self.made.collection)
        self._is_sealed = True

    def require_sealed(self) -> None:
        """Raise ValueError unless the generation can go live."""
        if not self._is_sealed or self._is_over:
            message = f"The generation {self.made.manifest.generation} is not one that was sealed and can go live."
            raise ValueError(message)

    def went_live(self) -> None:
        """Note that the generation is the index's now, so that discarding it does nothing."""
        self._is_over = True

    def discard(self) -> None:
        """Remove the generation, unless it is live or gone."""
        if not self._is_over:
            self._is_over = True
            self._remove(self.made.collection)


# Manifests as one string of a collection's metadata, which all who share the server read.


class ForeignManifestError(Exception):
    """The manifest of the collection is foreign, or of another format."""


class NewerManifestError(ForeignManifestError):
    """The manifest has a format of a later version."""


def vector_text(manifest: VectorManifest) -> str:
    """Return the manifest as a string."""
    return _to_text(content_of(manifest))


def vector_manifest(text: str) -> VectorManifest:
    """Return the manifest of a string.

    Raises:
        ForeignManifestError: It is not what `vector_text` makes.
    """
    return _read(text, manifest_of)


def lexical_text(manifest: LexicalManifest) -> str:
    """Return the manifest as a string."""
    return _to_text({"generation": manifest.generation, "position": manifest.position, "analysis": manifest.analysis})


def lexical_manifest(text: str) -> LexicalManifest:
    """Return the manifest of a string.

    Raises:
        ForeignManifestError: It is not what `lexical_text` makes.
    """
    return _read(text, _lexical_manifest_of)


def _lexical_manifest_of(content: dict[str, Any]) -> LexicalManifest:
    return LexicalManifest(int(content["generation"]), int(content["position"]), str(content["analysis"]))


def _to_text(content: dict[str, Any]) -> str:
    return json.dumps({"format": FORMAT, **content})


def _read(text: str, read: Callable[[dict[str, Any]], M]) -> M:
    try:
        content = json.loads(text)
        if (found := content["format"]) != FORMAT:
            message = f"The format is {found!r}, not {FORMAT}."
            raise (NewerManifestError if isinstance(found, int) and found > FORMAT else ForeignManifestError)(message)
        return read(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ForeignManifestError(str(error)) from error
