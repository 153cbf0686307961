"""Random sequences of calls, against a plain model of what must be stored after each of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_filters import simple_filters
from tests.support.filter_oracle import matches
from tests.support.rpc import KEYWORD, SEMANTIC, TIMEOUT, Refusal, list_all
from tests.support.server_process import Stubs
from tests.support.watch import watching

STEPS, EVERY = 80, 40
DIMENSION = 256
WORDS = ("gantry", "kelpie", "lozenge", "mangrove", "obelisk", "palisade", "quiver", "rosette", "sextant", "vellum")
EVERYTHING = filters_pb.Filter(statuses=range(1, 8), tiers=range(1, 5), include_expired=True, include_not_valid=True)  # type: ignore[arg-type] # numbers of the enums
ACTIVE, ARCHIVED, DELETED = (
    types_pb.MEMORY_STATUS_ACTIVE,
    types_pb.MEMORY_STATUS_ARCHIVED,
    types_pb.MEMORY_STATUS_DELETED,
)
ORDERS = ("", "create_time asc", "update_time desc", "importance asc", "importance desc", "event_time asc")
Moment = tuple[Timestamp, dict[str, types_pb.Memory]]


class Model:
    """The memories of one user in one project, by id and revision, and the calls that change them.

    Attributes:
        revisions: All revisions of each memory, oldest first.
        doubled: The memories that may have had the content of another one.
        log: What was called; an assertion that fails shows it.
    """

    def __init__(self, stubs: Stubs, scope: types_pb.Scope, seed: int) -> None:
        self.stubs, self.scope = stubs, scope
        self.chance = random.Random(seed)
        self.vectors = np.random.default_rng(seed)
        self.revisions: dict[str, list[types_pb.Memory]] = {}
        self.doubled: set[str] = set()
        self.log: list[str] = []

    @property
    def current(self) -> dict[str, types_pb.Memory]:
        """Return the present revisions."""
        return {memory_id: several[-1] for memory_id, several in self.revisions.items()}

    def step(self) -> None:
        """Make one call, and check that it changes what it may change and nothing else."""
        calls: dict[Callable[[], set[str]], int] = {
            self._create: 8, self._update: 8, self._delete: 3, self._restore: 3, self._archive: 2, self._roll_back: 3,
            self._supersede: 2,
        }  # fmt: skip
        (call,) = self.chance.choices([*calls], [*calls.values()])
        may_change: set[str] = set()
        try:
            may_change = call()
        except grpc.RpcError as error:
            refusal = Refusal.from_error(error)
            self.log.append(f"  refused: {refusal.reason}")
            assert refusal.reason in {"MEMORY_EXISTS", "MEMORY_SUPERSEDED", "REVISION_CONFLICT"}, self.log
        found = self.listed(EVERYTHING)
        for memory in found.values():
            known = self.revisions.setdefault(memory.id, [])
            if known and known[-1].revision == memory.revision:
                assert known[-1] == memory, self.log
                continue
            assert memory.id in may_change, self.log
            # A rollback has a second revision where a link of the restored one does not hold any more.
            assert 1 <= memory.revision - len(known) <= 1 + (call == self._roll_back), self.log
            known.extend(self._revision(memory.id, number) for number in range(len(known) + 1, memory.revision))
            known.append(memory)
        assert found.keys() == self.revisions.keys(), self.log

    def listed(self, chosen: filters_pb.Filter, **request: Any) -> dict[str, types_pb.Memory]:
        """Return the memories of a list, each of which must be on one page, without their accesses."""
        memories = list_all(self.stubs, self.scope, filter=chosen, page_size=self.chance.choice((3, 1000)), **request)
        assert len({memory.id for memory in memories}) == len(memories), self.log
        return {memory.id: _without_accesses(memory) for memory in memories}

    def _revision(self, memory_id: str, number: int) -> types_pb.Memory:
        request = memory_pb.GetMemoryRequest(scope=self.scope, id=memory_id, revision=number)
        return _without_accesses(self.stubs.memory.GetMemory(request, timeout=TIMEOUT).memory)

    def drawn_filter(self) -> filters_pb.Filter:
        """Return a filter of one field, or of two that do not concern the same value."""
        one, other = self.chance.sample(FILTERS, 2)
        chosen = filters_pb.Filter()
        chosen.CopyFrom(one)
        if self.chance.random() < 0.5 and not _values_tested(one) & _values_tested(other):
            chosen.MergeFrom(other)
        # What is valid when is no matter of this test, and a superseded memory is not valid any more.
        chosen.include_not_valid = True
        return chosen

    def vector(self) -> list[float]:
        """Return a random direction."""
        return [float(one) for one in self.vectors.normal(size=DIMENSION)]

    def _drawn(self) -> types_pb.Memory:
        chance = self.chance
        memory = types_pb.Memory(content=" ".join(chance.sample(WORDS, chance.randint(1, 3))))
        memory.importance = chance.randint(1, 5)
        memory.tags.extend(chance.sample(("red", "green", "绿"), chance.randint(0, 2)))
        memory.category = chance.choice(("", "food", "Food"))
        memory.kind = chance.choice((types_pb.MEMORY_KIND_FACT, types_pb.MEMORY_KIND_PREFERENCE))
        memory.metadata.update({"n": chance.randint(0, 3), "size": chance.choice((-2.5, 7, [3, -40.25]))})
        if chance.random() < 0.3:
            memory.key = chance.choice(("notes/1", "notes/2", "Notes/1"))
        return memory

    def _chosen(self) -> types_pb.Memory:
        chosen = self.chance.choice([*self.current.values()] or [types_pb.Memory()])
        self.log.append(f"  of {chosen.id} at {chosen.revision}, status {chosen.status}")
        return chosen

    def _create(self) -> set[str]:
        memory, policy = self._drawn(), self.chance.choice((0, 0, 3))
        self.log.append(f"create {memory} {policy}")
        holders = [one for one in self.current.values() if memory.key == one.key != "" and one.status != DELETED]
        equal = [
            one for one in self.current.values()
            if one.status == ACTIVE and (one.content, one.kind) == (memory.content, memory.kind)
            and not one.HasField("valid_to")
        ]  # fmt: skip
        reply = self.stubs.memory.CreateMemory(
            memory_pb.CreateMemoryRequest(
                scope=self.scope, memory=memory, vector=self.vector(),
                on_duplicate=policy,  # type: ignore[arg-type] # a number of the enum
            ),
            timeout=TIMEOUT,
        )  # fmt: skip
        assert reply.memory.content == memory.content, self.log
        if holders:
            assert [one.id for one in holders] == [reply.memory.id], self.log
        elif reply.outcome == types_pb.WRITE_OUTCOME_DUPLICATE:
            assert policy == 0, self.log
            assert reply.memory.id in {one.id for one in equal}, self.log
            return set()
        else:
            # Of several memories with equal content one makes others duplicates, and none when that one is gone.
            assert policy or len(equal) != 1 or equal[0].id in self.doubled, self.log
            assert reply.outcome == types_pb.WRITE_OUTCOME_CREATED, self.log
        if equal or holders:
            self.doubled |= {reply.memory.id, *(one.id for one in equal)}
        return {reply.memory.id}

    def _update(self) -> set[str]:
        old, new = self._chosen(), self._drawn()
        new.id, new.key = old.id, ""
        if self.chance.random() < 0.6:
            new.content = ""
        expected = self.chance.choice((0, old.revision, old.revision + 1))
        self.log.append(f"update {new} {expected}")
        if not old.id or old.status == DELETED:
            return set()
        request = memory_pb.UpdateMemoryRequest(scope=self.scope, memory=new, expected_revision=expected)
        memory = self.stubs.memory.UpdateMemory(request, timeout=TIMEOUT).memory
        assert expected in {0, old.revision}, self.log
        assert (new.importance, new.metadata) == (memory.importance, memory.metadata), self.log
        assert (new.content or old.content, old.key) == (memory.content, memory.key), self.log
        return {old.id}

    def _delete(self) -> set[str]:
        old = self._chosen()
        self.log.append("delete")
        if not old.id or old.status == DELETED:
            return set()
        request = memory_pb.DeleteMemoryRequest(scope=self.scope, id=old.id)
        assert self.stubs.memory.DeleteMemory(request, timeout=TIMEOUT).memory.status == DELETED, self.log
        return {old.id}

    def _restore(self) -> set[str]:
        old = self._chosen()
        self.log.append("restore")
        if not old.id:
            return set()
        request = memory_pb.RestoreMemoryRequest(scope=self.scope, id=old.id)
        memory = self.stubs.memory.RestoreMemory(request, timeout=TIMEOUT).memory
        assert memory.status != DELETED, self.log
        return {old.id} if old.status in {ARCHIVED, DELETED} else set()

    def _archive(self) -> set[str]:
        old = self._chosen()
        self.log.append("archive")
        if not old.id or old.status != ACTIVE:
            return set()
        request = lifecycle_pb.ArchiveMemoryRequest(scope=self.scope, id=old.id)
        assert self.stubs.lifecycle.ArchiveMemory(request, timeout=TIMEOUT).memory.status == ARCHIVED, self.log
        return {old.id}

    def _roll_back(self) -> set[str]:
        old = self._chosen()
        revision = self.chance.randint(1, max(1, old.revision))
        self.log.append(f"roll back to {revision}")
        if not old.id:
            return set()
        request = memory_pb.RollbackMemoryRequest(scope=self.scope, id=old.id, revision=revision)
        memory = self.stubs.memory.RollbackMemory(request, timeout=TIMEOUT).memory
        then = self.revisions[old.id][revision - 1]
        assert (then.content, then.key, then.status) == (memory.content, memory.key, memory.status), self.log
        # The other ends of chains may change too.
        links = {
            link
            for one in self.revisions[old.id]
            for link in (one.supersedes_id, one.superseded_by_id)
        }  # fmt: skip
        return {old.id} | links

    def _supersede(self) -> set[str]:
        old = self._chosen()
        self.log.append("supersede")
        if not old.id or old.status != ACTIVE:
            return set()
        content = f"{self.chance.choice(WORDS)} {len(self.log)}"
        reply = self.stubs.memory.SupersedeMemory(
            memory_pb.SupersedeMemoryRequest(scope=self.scope, id=old.id, memory=types_pb.Memory(content=content)),
            timeout=TIMEOUT,
        )
        assert (old.id, reply.memory.id) == (reply.memory.supersedes_id, reply.superseded.superseded_by_id), self.log
        return {old.id, reply.memory.id}


FILTERS = [one for one in simple_filters() if not (one.last_days or one.HasField("access_time"))]


def _values_tested(chosen: filters_pb.Filter) -> set[str]:
    return {field.name.removeprefix("min_").removeprefix("max_") for field, _ in chosen.ListFields()}


def _without_accesses(memory: types_pb.Memory) -> types_pb.Memory:
    kept = types_pb.Memory()
    kept.CopyFrom(memory)
    kept.ClearField("access_count")
    kept.ClearField("access_time")
    return kept


@pytest.mark.parametrize("seed", [1, 2])
def test_all_reads_agree_with_what_was_written(stubs: Stubs, user: str, seed: int) -> None:
    """Lists, searches, revisions, the past, counts and watches, after every few of the calls."""
    scope = types_pb.Scope(user_id=user, project_id="p")
    model, moments = Model(stubs, scope, seed), list[Moment]()
    with watching(stubs, scope, filter=EVERYTHING) as reader:
        for number in range(1, STEPS + 1):
            model.step()
            if number % 10 == 0:
                now = Timestamp()
                now.GetCurrentTime()
                moments.append((now, model.current))
            if number % EVERY == 0:
                for _ in range(6):
                    _check_filter(model)
                _check_revisions(model)
                _check_past(model, *model.chance.choice(moments))
                _check_counts(model)
        changes = reader.read(sum(len(several) for several in model.revisions.values()))
        for memory_id, several in model.revisions.items():
            told = [change for change in changes if change.memory_id == memory_id]
            assert [one.revision for one in several] == [change.revision for change in told], model.log
            assert several == [_without_accesses(change.memory) for change in told], model.log


def _check_filter(model: Model) -> None:
    """Check a list in a random order, and searches by meaning and by words, which must find what the list has."""
    chosen = model.drawn_filter()
    now = datetime.now(UTC)
    expected = {one.id: one for one in model.current.values() if matches(one, chosen, model.scope, now)}
    assert expected == model.listed(chosen, order_by=model.chance.choice(ORDERS)), (chosen, model.log)
    found = {memory_id for memory_id, one in expected.items() if one.status != DELETED}
    assert found == _searched(model, chosen, mode=SEMANTIC, vector=model.vector()), (chosen, model.log)
    word = model.chance.choice(WORDS)
    said = {memory_id for memory_id in found if word in expected[memory_id].content.split()}
    by_word = _searched(model, chosen, mode=KEYWORD, query=word)
    assert said <= by_word <= set(expected), (chosen, word, model.log)


def _searched(model: Model, chosen: filters_pb.Filter, **request: Any) -> set[str]:
    """Return the ids of all hits, page by page; each memory must be one hit, as it is now."""
    hits: list[search_pb.Hit] = []
    token = ""
    while not hits or token:
        asked = search_pb.SearchRequest(
            scope=model.scope, filter=chosen, limit=model.chance.choice((7, 100)), page_token=token, **request
        )
        page = model.stubs.search.Search(asked, timeout=TIMEOUT)
        hits.extend(page.hits)
        token = page.next_page_token
        if not token:
            break
    current = model.current
    assert all(_without_accesses(hit.memory) == current[hit.memory.id] for hit in hits), model.log
    assert len({hit.memory.id for hit in hits}) == len(hits), (chosen, model.log)
    return {hit.memory.id for hit in hits}


def _check_revisions(model: Model) -> None:
    for memory_id, several in model.revisions.items():
        request = memory_pb.ListRevisionsRequest(scope=model.scope, id=memory_id, page_size=100)
        listed = model.stubs.memory.ListRevisions(request, timeout=TIMEOUT).revisions
        assert several == [_without_accesses(one.memory) for one in reversed(listed)], model.log


def _check_past(model: Model, moment: Timestamp, then: dict[str, types_pb.Memory]) -> None:
    assert then == model.listed(EVERYTHING, as_of=types_pb.AsOf(known_time=moment)), model.log


def _check_counts(model: Model) -> None:
    stats = model.stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=model.scope), timeout=TIMEOUT)
    names = [types_pb.MemoryStatus.Name(one.status).removeprefix("MEMORY_STATUS_") for one in model.current.values()]
    assert Counter(names) == dict(stats.count_by_status), model.log
    assert len(names) - names.count("DELETED") == stats.memory_count, model.log
