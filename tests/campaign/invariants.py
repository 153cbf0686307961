"""Invariants of a campaign, checked while the load is paused: nothing lost, doubled, foreign, or told falsely."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from contextlib import suppress

import grpc

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.campaign.load import EVERY_STATUS, Ledger, User, Watcher
from tests.support.rpc import HYBRID, KEYWORD, TIMEOUT, list_all, search
from tests.support.server_process import Stubs
from tests.support.sessions import said
from tests.support.until import until

SAMPLE = 12
"""Memories of a user that are searched by their own words."""
ERASED = 5
"""Users erased last that are looked for."""
REPAIR_SECONDS = 20.0
"""Time for an index to be repaired by itself, before a rebuild is asked for."""


class Invariants:
    """Checks of a service against what its clients were told."""

    def __init__(self, ledger: Ledger, users: list[User], watchers: list[Watcher], seed: int) -> None:
        self._ledger = ledger
        self._users = users
        self._watchers = watchers
        self._chance = random.Random(seed)
        self.rebuilds = 0

    def check(self, stubs: Stubs, *, damages: bool) -> None:
        """Check everything; after a damaged index a rebuild may be asked for first, if the diagnosis names the damage."""
        for user in self._users:
            self._check_store(stubs, user)
            self._check_session(stubs, user)
            self._check_erased(stubs, user)
        self._check_indexes(stubs, damages=damages)
        for user in self._users:
            self._check_searches(stubs, user)
        for user, watcher in zip(self._users, self._watchers, strict=True):
            self._check_watch(user, watcher)

    def _check_store(self, stubs: Stubs, user: User) -> None:
        stored = list_all(stubs, user.scope, filter=EVERY_STATUS, page_size=1000)
        memories = {memory.id: memory for memory in stored if " of " in memory.content}
        held: dict[str, list[str]] = defaultdict(list)
        for memory in memories.values():
            if f" of {user.name} " not in memory.content:
                self._ledger.violate(f"{user.name} lists {memory.content!r}")
            held[memory.content.split()[1]].append(memory.id)
        for word, ids in held.items():
            if len(ids) > 1:
                self._ledger.violate(f"{word} is stored {len(ids)} times")
            if word not in user.entries and word not in user.unknown:
                self._ledger.violate(f"{word} was never written")
        for word, entry in user.entries.items():
            kept = memories.get(entry.memory_id)
            if kept is None:
                if not (entry.is_deleted or entry.is_uncertain):
                    self._ledger.violate(f"{word} was acknowledged and is lost")
                continue
            is_deleted = kept.status == types_pb.MEMORY_STATUS_DELETED
            if not entry.is_uncertain and is_deleted != entry.is_deleted:
                self._ledger.violate(f"{word} has the status {kept.status}, deleted: {entry.is_deleted}")
            if kept.content not in entry.contents or kept.revision < entry.revision:
                self._ledger.violate(f"{word} is {kept.content!r}, revision {kept.revision}, not {entry}")

    def _check_session(self, stubs: Stubs, user: User) -> None:
        if not user.said:
            return
        messages = [message.content for message in said(stubs, user.session, include_archived=True, page_size=1000)]
        counts = Counter(messages)
        for text, count in counts.items():
            if count > 1:
                self._ledger.violate(f"the message {text!r} is stored {count} times")
            if text not in user.unknown_said and text not in user.said:
                self._ledger.violate(f"the message {text!r} was never sent")
        acknowledged = set(user.said)
        if [text for text in messages if text in acknowledged] != user.said:
            lost = [text for text in user.said if text not in counts]
            self._ledger.violate(f"messages of {user.name} are lost or out of order: {lost[:3]}")

    def _check_erased(self, stubs: Stubs, user: User) -> None:
        for name in user.erased[-ERASED:]:
            scope = types_pb.Scope(user_id=name)
            left = list_all(stubs, scope, filter=EVERY_STATUS)
            hits = search(stubs, scope, "okapi", mode=KEYWORD).hits
            if left or hits:
                self._ledger.violate(f"{name} was erased and has {len(left)} memories, {len(hits)} hits")

    def _check_indexes(self, stubs: Stubs, *, damages: bool) -> None:
        last = admin_pb.DiagnoseResponse()

        def is_well() -> bool:
            nonlocal last
            last = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)
            return last.healthy and all(
                index.expected_count == index.present_count
                and not (index.missing_count or index.stale_count or index.orphaned_count)
                for index in last.indexes
            )

        with suppress(AssertionError):
            until(is_well, seconds=REPAIR_SECONDS)
            return
        warnings = "; ".join(warning.message for warning in last.warnings)
        if damages:
            self.rebuilds += 1
            list(stubs.admin.Reindex(admin_pb.ReindexRequest(), timeout=TIMEOUT))
            with suppress(AssertionError):
                until(is_well, seconds=REPAIR_SECONDS)
                return
        self._ledger.violate(f"the indexes differ from the store, or a backend is unhealthy: {warnings}")

    def _check_searches(self, stubs: Stubs, user: User) -> None:
        sure = [word for word, entry in user.entries.items() if not (entry.is_deleted or entry.is_uncertain)]
        for word in self._chance.sample(sure, min(SAMPLE, len(sure))):
            mode = self._chance.choice((KEYWORD, HYBRID))
            request = search_pb.SearchRequest(
                scope=user.scope, query=word, mode=mode, limit=10, consistency_token=user.token
            )
            try:
                reply = stubs.search.Search(request, timeout=TIMEOUT)
            except grpc.RpcError as error:
                self._ledger.violate(f"a search after the recovery failed: {error.details()}")
                continue
            found = [hit.memory.id for hit in reply.hits if hit.memory.content.split()[1] == word]
            # By meaning the memories of a user are nearly the same: only words name one of them.
            if found != [user.entries[word].memory_id] and (mode == KEYWORD or len(found) > 1):
                contents = [hit.memory.content for hit in reply.hits]
                self._ledger.violate(f"{word} is found {len(found)} times in {contents}")
            if reply.degraded:
                self._ledger.violate(f"a search after the recovery is degraded: {list(reply.degraded)}")

    def _check_watch(self, user: User, watcher: Watcher) -> None:
        told = {(entry.memory_id, entry.revision) for entry in user.entries.values()}
        with suppress(AssertionError):
            until(lambda: all(one in watcher.seen for one in told), seconds=30.0)
        if missing := [one for one in told if one not in watcher.seen]:
            self._ledger.violate(f"the watch of {user.name} lacks {len(missing)} changes")
        if doubled := [one for one, count in watcher.seen.items() if count > 1]:
            self._ledger.violate(f"the watch of {user.name} told {len(doubled)} changes twice")
