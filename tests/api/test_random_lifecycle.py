"""Random sequences of lifecycle calls: after each of them links, keys and conflicts agree, and no read contradicts.

The clock of the server moves on by days, so memories expire, cease to be valid, and are archived by maintenance.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.history import checkpoint, known, plain, revisions, roll_back_to
from tests.support.rpc import SEMANTIC, TIMEOUT, Refusal, list_all
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.user_data import Line, erase, export, records, take_in

STEPS, EVERY = 48, 24
EVERYTHING = filters_pb.Filter(statuses=range(1, 8), tiers=range(1, 5), include_expired=True, include_not_valid=True)  # type: ignore[arg-type] # numbers of the enums
ACTIVE, ARCHIVED, EXPIRED, SUPERSEDED, CONFLICTED, DELETED, QUARANTINED = range(1, 8)
OPEN = types_pb.CONFLICT_STATE_OPEN
SHORT_TERM = types_pb.MEMORY_LAYER_SHORT_TERM
KEYS = ("notes/1", "家/1")
CONTRADICTING = (
    "Anna lives in Lisbon.", "Anna lives in Porto.", "Anna lives in Faro. She has a red bike.", "I live in Leeds.",
    "I live in York.", "小王住在北京。", "小王住在上海。", "小王住在广州。他有一辆红色的自行车。",
)  # fmt: skip
EQUIVALENT = (
    "I really enjoy alpine hiking.", "The user likes alpine hiking", "用户非常喜欢在山里徒步。", "我很喜爱在山里徒步",
    "I don't like alpine hiking.", "The gantry is painted green.", "Anna lives in Lisbon.",
)  # fmt: skip
TELLS_MORE = ("bike", "自行车")
"""Words of the contents that stay in use as the older side of a conflict, because they state more."""
REFUSALS = frozenset(
    {
        "INVALID_REQUEST",
        "MEMORY_EXISTS",
        "MEMORY_NOT_FOUND",
        "MEMORY_SUPERSEDED",
        "REVISION_CONFLICT",
        "SUPERSEDE_CYCLE",
    }
)
STEPS_OF_MAINTENANCE = (
    lifecycle_pb.MAINTENANCE_STEP_EXPIRE, lifecycle_pb.MAINTENANCE_STEP_PROMOTE, lifecycle_pb.MAINTENANCE_STEP_ARCHIVE,
    lifecycle_pb.MAINTENANCE_STEP_CONSOLIDATE, lifecycle_pb.MAINTENANCE_STEP_DETECT_CONFLICTS,
)  # fmt: skip
State = dict[str, types_pb.Memory]


class Clock:
    """The clock of the server, which can be moved on."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def __call__(self) -> datetime:
        """Return the present moment."""
        return datetime.now(UTC) + self.ahead

    def stamp(self, **parts: float) -> Timestamp:
        """Return the present moment, or one so much later."""
        moment = Timestamp()
        moment.FromDatetime(self() + timedelta(**parts))
        return moment


@pytest.fixture(scope="module")
def clock() -> Clock:
    """The clock of this module's server."""
    return Clock()


@pytest.fixture(scope="module")
def stubs(clock: Clock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A server with that clock."""
    with served(tmp_path_factory.mktemp("lifecycle") / "data", now=clock, call_now=clock) as stubs:
        yield stubs


class Life:
    """The memories of one user, global ones and those of a project, with all revisions, and the calls on them.

    Attributes:
        purged: Whether a memory was removed permanently.
        log: What was called; an assertion that fails shows it.
    """

    def __init__(self, stubs: Stubs, user: str, clock: Clock, contents: Sequence[str], seed: int) -> None:
        self.stubs, self.clock, self.contents = stubs, clock, contents
        self.home, self.project = types_pb.Scope(user_id=user), types_pb.Scope(user_id=user, project_id="p")
        self.chance = random.Random(seed)
        self.revisions: dict[str, list[types_pb.Memory]] = {}
        self.conflicts: list[types_pb.Conflict] = []
        self.moments: list[tuple[Timestamp, State]] = []
        self.checkpoints: dict[str, State] = {}
        self.purged = False
        self.log: list[str] = []

    @property
    def current(self) -> State:
        """Return the present revisions."""
        return {memory_id: several[-1] for memory_id, several in self.revisions.items()}

    def step(self) -> None:
        """Make one call, and check what is stored after it."""
        calls: dict[Callable[[], Sequence[types_pb.Memory]], int] = {
            self._create: 10, self._update: 5, self._delete: 3, self._purge: 2, self._restore: 4, self._archive: 2,
            self._roll_back: 7, self._supersede: 5, self._resolve: 4, self._review: 2, self._promote: 2,
            self._consolidate: 2, self._undo: 3, self._maintain: 1, self._detect: 1, self._wait: 1,
            self._checkpoint: 1, self._roll_back_all: 1,
        }  # fmt: skip
        (call,) = self.chance.choices([*calls], [*calls.values()])
        answered: Sequence[types_pb.Memory] = ()
        try:
            answered = call()
        except grpc.RpcError as error:
            refusal = Refusal.from_error(error)
            self.log.append(f"  refused: {refusal}")
            assert refusal.reason in REFUSALS, self.log
        self.read()
        for memory in answered:
            assert plain(memory) == self.current[memory.id], self.log
        check_links(self)
        check_conflicts(self)

    def read(self) -> None:
        """Read all memories and conflicts; each memory that differs must have new revisions, all of which are read."""
        found = self.listed(EVERYTHING)
        for memory in found.values():
            several = self.revisions.setdefault(memory.id, [])
            if several and several[-1].revision == memory.revision:
                assert several[-1] == memory, self.log
                continue
            several.extend(self._revision(memory.id, at) for at in range(len(several) + 1, memory.revision))
            several.append(memory)
            assert memory.revision == len(several), self.log
        assert found.keys() == self.revisions.keys(), self.log
        request = memory_pb.ListConflictsRequest(scope=self.project, states=range(1, 6), page_size=1000)  # type: ignore[arg-type] # numbers of the enum
        self.conflicts = list(self.stubs.memory.ListConflicts(request, timeout=TIMEOUT).conflicts)
        for conflict in self.conflicts:
            for side in (conflict.older_memory, conflict.newer_memory):
                side.CopyFrom(plain(side))

    def listed(self, chosen: filters_pb.Filter, **request: Any) -> State:
        """Return a list, without accesses."""
        found = list_all(self.stubs, self.project, filter=chosen, page_size=1000, **request)
        return {memory.id: plain(memory) for memory in found}

    def _revision(self, memory_id: str, number: int) -> types_pb.Memory:
        request = memory_pb.GetMemoryRequest(scope=self.project, id=memory_id, revision=number)
        return plain(self.stubs.memory.GetMemory(request, timeout=TIMEOUT).memory)

    def _chosen(self, *statuses: int, **fields: Any) -> types_pb.Memory:
        """Return a random memory with one of the statuses and these fields, or an empty one, which no call finds."""
        fitting = [one for one in self.current.values() if not statuses or one.status in statuses]
        fitting = [one for one in fitting if all(getattr(one, name) == value for name, value in fields.items())]
        chosen = self.chance.choice(fitting or [types_pb.Memory()])
        self.log.append(f"  of {chosen.id} at {chosen.revision}, status {chosen.status}: {chosen.content}")
        return chosen

    def _scope(self, memory: types_pb.Memory) -> types_pb.Scope:
        return self.project if memory.scope.project_id else self.home

    def _create(self) -> Sequence[types_pb.Memory]:
        chance, clock = self.chance, self.clock
        memory = types_pb.Memory(content=chance.choice(self.contents), importance=chance.randint(1, 5))
        memory.layer = chance.choice((SHORT_TERM, types_pb.MEMORY_LAYER_LONG_TERM))
        memory.key = chance.choice(("", "", "", *KEYS))
        optional = {
            "expire_time": clock.stamp(days=chance.choice((-1, 1, 20))),
            "event_time": clock.stamp(days=-chance.randint(1, 40)),
            "valid_from": clock.stamp(days=chance.choice((-3, 3))),
            "valid_to": clock.stamp(days=chance.choice((5, 9))),
        }
        for name, moment in optional.items():
            if chance.random() < 0.15:
                getattr(memory, name).CopyFrom(moment)
        if chance.random() < 0.1:
            memory.status = types_pb.MEMORY_STATUS_QUARANTINED
        scope = chance.choice((self.home, self.project))
        policy, duplicates = chance.randint(0, 3), chance.choice((0, 0, 2, 3))
        self.log.append(f"create {memory} in {scope.project_id!r}, {policy} {duplicates}")
        request = memory_pb.CreateMemoryRequest(
            scope=scope, memory=memory, conflict_policy=policy, on_duplicate=duplicates  # type: ignore[arg-type]
        )  # fmt: skip
        return [self.stubs.memory.CreateMemory(request, timeout=TIMEOUT).memory]

    def _update(self) -> Sequence[types_pb.Memory]:
        old, chance = self._chosen(), self.chance
        new = types_pb.Memory(id=old.id, content=chance.choice(self.contents), key=chance.choice(("", *KEYS)))
        new.status = chance.choice((ACTIVE, ARCHIVED, QUARANTINED))  # type: ignore[assignment] # a number of the enum
        new.valid_to.CopyFrom(self.clock.stamp(days=chance.choice((-1, 4))))
        paths = chance.sample(("content", "content", "importance", "key", "status", "valid_to"), 2)
        self.log.append(f"update {paths} to {new}")
        request = memory_pb.UpdateMemoryRequest(
            scope=self._scope(old), memory=new, update_mask=FieldMask(paths=dict.fromkeys(paths)),
            conflict_policy=chance.randint(0, 3),  # type: ignore[arg-type] # a number of the enum
        )  # fmt: skip
        return [self.stubs.memory.UpdateMemory(request, timeout=TIMEOUT).memory] if old.id else []

    def _delete(self) -> Sequence[types_pb.Memory]:
        old = self._chosen(ACTIVE, ARCHIVED, EXPIRED, SUPERSEDED, CONFLICTED, QUARANTINED)
        self.log.append("delete")
        request = memory_pb.DeleteMemoryRequest(scope=self._scope(old), id=old.id)
        return [self.stubs.memory.DeleteMemory(request, timeout=TIMEOUT).memory] if old.id else []

    def _purge(self) -> Sequence[types_pb.Memory]:
        old = self._chosen()
        self.log.append("purge")
        if old.id:
            request = memory_pb.DeleteMemoryRequest(scope=self._scope(old), id=old.id, purge=True)
            self.stubs.memory.DeleteMemory(request, timeout=TIMEOUT)
            self.purged = True
            for state in (self.revisions, *(state for _, state in self.moments), *self.checkpoints.values()):
                state.pop(old.id, None)  # type: ignore[attr-defined] # dictionaries by id all of them
        return []

    def _restore(self) -> Sequence[types_pb.Memory]:
        old = self._chosen(ARCHIVED, EXPIRED, SUPERSEDED, DELETED)
        self.log.append("restore")
        request = memory_pb.RestoreMemoryRequest(scope=self._scope(old), id=old.id)
        return [self.stubs.memory.RestoreMemory(request, timeout=TIMEOUT).memory] if old.id else []

    def _archive(self) -> Sequence[types_pb.Memory]:
        old = self._chosen(ACTIVE, CONFLICTED)
        self.log.append("archive")
        request = lifecycle_pb.ArchiveMemoryRequest(scope=self._scope(old), id=old.id)
        return [self.stubs.lifecycle.ArchiveMemory(request, timeout=TIMEOUT).memory] if old.id else []

    def _roll_back(self) -> Sequence[types_pb.Memory]:
        old = self._chosen()
        revision = self.chance.randint(1, max(1, old.revision))
        self.log.append(f"roll back to {revision}")
        request = memory_pb.RollbackMemoryRequest(scope=self._scope(old), id=old.id, revision=revision)
        return [self.stubs.memory.RollbackMemory(request, timeout=TIMEOUT).memory] if old.id else []

    def _supersede(self) -> Sequence[types_pb.Memory]:
        old, new = self._chosen(), types_pb.Memory(content=self.chance.choice(self.contents))
        if self.chance.random() < 0.5:
            new = types_pb.Memory(id=self._chosen(ACTIVE).id)
        self.log.append(f"supersede by {new}")
        request = memory_pb.SupersedeMemoryRequest(
            scope=self.project, id=old.id, memory=new, conflict_policy=self.chance.randint(0, 3)  # type: ignore[arg-type]
        )  # fmt: skip
        if not old.id or not (new.id or new.content):
            return []
        reply = self.stubs.memory.SupersedeMemory(request, timeout=TIMEOUT)
        assert (old.id, reply.memory.id) == (reply.superseded.id, reply.superseded.superseded_by_id), self.log
        return [reply.memory, reply.superseded]

    def _resolve(self) -> Sequence[types_pb.Memory]:
        waiting = [one for one in self.conflicts if one.state == OPEN]
        if not waiting:
            return []
        conflict, resolution = self.chance.choice(waiting), self.chance.randint(1, 3)
        self.log.append(f"resolve {conflict.older_memory_id} {conflict.newer_memory_id} by {resolution}")
        request = memory_pb.ResolveConflictRequest(scope=self.project, id=conflict.id, resolution=resolution)  # type: ignore[arg-type]
        settled = self.stubs.memory.ResolveConflict(request, timeout=TIMEOUT).conflict
        assert OPEN != settled.state, self.log
        return [settled.older_memory, settled.newer_memory]

    def _review(self) -> Sequence[types_pb.Memory]:
        old, verdict = self._chosen(QUARANTINED), self.chance.randint(1, 2)
        self.log.append(f"review {verdict}")
        request = memory_pb.ReviewMemoryRequest(scope=self._scope(old), id=old.id, verdict=verdict)  # type: ignore[arg-type]
        return [self.stubs.memory.ReviewMemory(request, timeout=TIMEOUT).memory] if old.id else []

    def _promote(self) -> Sequence[types_pb.Memory]:
        old = self._chosen(ACTIVE, layer=SHORT_TERM)
        content = self.chance.choice(("", "", self.chance.choice(self.contents)))
        self.log.append(f"promote {content}")
        request = lifecycle_pb.PromoteMemoryRequest(scope=self._scope(old), id=old.id, content=content)
        if not old.id:
            return []
        reply = self.stubs.lifecycle.PromoteMemory(request, timeout=TIMEOUT)
        return [reply.memory, reply.source]

    def _consolidate(self) -> Sequence[types_pb.Memory]:
        scope = self.chance.choice((self.home, self.project))
        self.log.append(f"consolidate {scope.project_id!r}")
        planned, done, again = (
            self.stubs.lifecycle.ConsolidateMemories(
                lifecycle_pb.ConsolidateMemoriesRequest(scope=scope, dry_run=is_dry), timeout=TIMEOUT
            ).groups
            for is_dry in (True, False, False)
        )
        assert [_original_ids(one) for one in planned] == [_original_ids(one) for one in done], self.log
        assert [] == list(again), self.log
        return [memory for group in done for memory in (group.merged, *group.originals)]

    def _undo(self) -> Sequence[types_pb.Memory]:
        old = self._chosen(source="consolidation")
        self.log.append("undo")
        request = lifecycle_pb.UndoConsolidationRequest(scope=self._scope(old), id=old.id)
        if not old.id:
            return []
        reply = self.stubs.lifecycle.UndoConsolidation(request, timeout=TIMEOUT)
        return [reply.merged, *reply.originals]

    def _maintain(self) -> Sequence[types_pb.Memory]:
        self.log.append("maintain")
        self._maintained(dry_run=True)
        self._maintained()
        assert [] == self._maintained(), self.log
        return []

    def _maintained(self, **request: Any) -> list[lifecycle_pb.MaintenanceChange]:
        asked = lifecycle_pb.RunMaintenanceRequest(scope=self.home, steps=STEPS_OF_MAINTENANCE, **request)
        told = list(self.stubs.lifecycle.RunMaintenance(asked, timeout=TIMEOUT))
        assert [""] * len(STEPS_OF_MAINTENANCE) == [tally.failure for tally in told[-1].tallies], self.log
        return [change for response in told for change in response.changes]

    def _detect(self) -> Sequence[types_pb.Memory]:
        policy = self.chance.randint(1, 3)
        self.log.append(f"detect {policy}")
        asked = lifecycle_pb.DetectConflictsRequest(scope=self.home, conflict_policy=policy)  # type: ignore[arg-type]
        for _ in range(2):
            told = list(self.stubs.lifecycle.DetectConflicts(asked, timeout=TIMEOUT))
        assert 0 == told[-1].conflict_count, self.log
        return []

    def _wait(self) -> Sequence[types_pb.Memory]:
        days = self.chance.choice((1, 3, 8, 30, 100))
        self.log.append(f"wait {days}")
        self.clock.ahead += timedelta(days=days)
        return []

    def _checkpoint(self) -> Sequence[types_pb.Memory]:
        name = f"at {len(self.log)}"
        self.log.append(f"checkpoint {name}")
        checkpoint(self.stubs, self.project, name)
        self.checkpoints[name] = {key: one for key, one in self.current.items() if one.scope.project_id}
        return []

    def _roll_back_all(self) -> Sequence[types_pb.Memory]:
        if not self.checkpoints:
            return []
        name = self.chance.choice([*self.checkpoints])
        done = roll_back_to(self.stubs, self.project, name)
        self.log.append(f"roll back to {name}: {done}")
        self.read()
        left = {one.memory_id for one in done.unrestored}
        for memory_id, memory in self.current.items():
            if memory_id in left or not memory.scope.project_id:
                continue
            then = self.checkpoints[name].get(memory_id)
            assert then is not None or memory.status == DELETED, self.log
            if then is not None and not (left or self.purged):
                # Links and conflicts with memories of other projects, which stay, are as those have them.
                assert (then.content, then.key, then.layer) == (memory.content, memory.key, memory.layer), self.log
        return []


def _original_ids(group: lifecycle_pb.ConsolidatedGroup) -> list[str]:
    return [one.id for one in group.originals]


@pytest.mark.parametrize(("contents", "seed"), [(CONTRADICTING, 1), (EQUIVALENT, 4)])
def test_lives_agree_with_themselves(stubs: Stubs, user: str, clock: Clock, contents: Sequence[str], seed: int) -> None:
    """Every few calls the reads, too; at the end the user is exported, erased and imported, and is the same as before."""
    life = Life(stubs, user, clock, contents, seed)
    for number in range(1, STEPS + 1):
        life.step()
        if number % 8 == 0:
            life.moments.append((clock.stamp(), life.current))
        if number % EVERY == 0:
            check_revisions(life)
            check_reads(life)
            check_past(life)
            check_counts(life)
    before = life.revisions, life.conflicts
    file = export(stubs, user)
    assert erase(stubs, user, confirm=True).clean
    taken = take_in(stubs, user, file)
    assert (0, []) == (taken.skipped_count, list(taken.issues)), life.log
    life.revisions = {}
    life.read()
    assert before == (life.revisions, life.conflicts), life.log
    assert [_lasting(one) for one in records(file)] == [_lasting(one) for one in records(export(stubs, user))]
    check_reads(life)
    check_past(life)
    assert not take_in(stubs, user, file).stored_counts, life.log


def _lasting(line: Line) -> str:
    """Return a record without accesses, which are written late."""
    return json.dumps({name: value for name, value in line.items() if not name.startswith("access_")})


def check_links(life: Life) -> None:
    """Check that both ends of each link agree, that no chain is a ring, and that keys are unique."""
    current = life.current
    for memory in current.values():
        if memory.superseded_by_id:
            new = current[memory.superseded_by_id]
            assert memory.status in {SUPERSEDED, ARCHIVED, DELETED}, life.log
            is_named = new.supersedes_id or memory.id in new.derived_from_ids
            assert is_named or DELETED in {memory.status, new.status}, life.log
        else:
            assert memory.status != SUPERSEDED or life.purged, life.log
        if memory.supersedes_id:
            assert memory.id == current[memory.supersedes_id].superseded_by_id, life.log
        chain = [memory.id]
        while following := current[chain[-1]].superseded_by_id:
            assert following not in chain, life.log
            chain.append(following)
    bearers = [one for one in current.values() if one.key and one.status not in {DELETED, QUARANTINED}]
    assert len(bearers) == len({(one.scope.project_id, one.key) for one in bearers}), life.log


def check_conflicts(life: Life) -> None:
    """Check that an open conflict has two sides in use, and that what is CONFLICTED is the older side of one."""
    current, older_sides = life.current, set()
    for conflict in life.conflicts:
        sides = older, newer = current[conflict.older_memory_id], current[conflict.newer_memory_id]
        for side, shown in zip(sides, (conflict.older_memory, conflict.newer_memory), strict=True):
            assert shown == (types_pb.Memory() if side.status == DELETED else side), life.log
        assert (conflict.state == OPEN) is not conflict.HasField("resolve_time"), life.log
        if conflict.state == OPEN:
            assert {older.status, newer.status} <= {ACTIVE, CONFLICTED}, life.log
            assert older.content != newer.content, life.log
            is_kept = older.scope != newer.scope or any(word in older.content for word in TELLS_MORE)
            assert older.status == CONFLICTED or is_kept, life.log
            older_sides.add(older.id)
    assert {one.id for one in current.values() if one.status == CONFLICTED} <= older_sides, life.log
    pairs = Counter(
        frozenset((one.older_memory_id, one.newer_memory_id)) for one in life.conflicts if one.state == OPEN
    )
    assert set(pairs.values()) <= {1}, life.log


def check_revisions(life: Life) -> None:
    """Check that chains are complete: each revision is known until the next one, and tells what it changed."""
    for memory_id, several in life.revisions.items():
        listed = revisions(life.stubs, life.project, memory_id, page_size=100)[::-1]
        assert several == [plain(one.memory) for one in listed], life.log
        assert [one.update_time for one in several] == [one.known_from for one in listed], life.log
        assert [one.known_from for one in listed[1:]] == [one.known_to for one in listed[:-1]], life.log
        assert not listed[-1].HasField("known_to"), life.log
        for before, after in zip(listed, listed[1:], strict=False):
            assert before.known_from.ToNanoseconds() <= after.known_from.ToNanoseconds(), life.log
            assert _differing(before.memory, after.memory) == set(after.changed_fields), life.log


def _differing(before: types_pb.Memory, after: types_pb.Memory) -> set[str]:
    own = {"revision", "update_time", "access_count", "access_time"}
    names = {field.name for field in types_pb.Memory.DESCRIPTOR.fields} - own
    return {name for name in names if getattr(before, name) != getattr(after, name)}


def check_reads(life: Life) -> None:
    """Check that lists and searches find what is current, and nothing else; and what awaits a review."""
    now, current = life.clock(), life.current
    expected = {memory_id for memory_id, one in current.items() if _is_current(one, now)}
    assert expected == life.listed(filters_pb.Filter()).keys() == _searched(life), life.log
    request = memory_pb.ListQuarantinedRequest(scope=life.project, page_size=1000)
    waiting = life.stubs.memory.ListQuarantined(request, timeout=TIMEOUT).memories
    assert {key for key, one in current.items() if one.status == QUARANTINED} == {one.id for one in waiting}, life.log


def check_past(life: Life) -> None:
    """Check that what is read as of now is what is stored, and as of a moment what was stored then."""
    for moment, state in [(life.clock.stamp(), life.current), *life.moments]:
        assert state == life.listed(EVERYTHING, as_of=known(moment)), life.log
    moment, state = life.chance.choice(life.moments)
    then = moment.ToDatetime(tzinfo=UTC)
    expected = {memory_id for memory_id, one in state.items() if _is_current(one, then)}
    assert expected == life.listed(filters_pb.Filter(), as_of=known(moment)).keys(), life.log
    assert expected == _searched(life, as_of=known(moment)), life.log
    for key in KEYS:
        bearers = [one for one in state.values() if one.key == key and one.status not in {DELETED, QUARANTINED}]
        for scope in (life.home, life.project):
            request = memory_pb.GetMemoryRequest(scope=scope, key=key, as_of=known(moment))
            try:
                found = [plain(life.stubs.memory.GetMemory(request, timeout=TIMEOUT).memory)]
            except grpc.RpcError:
                found = []
            assert [one for one in bearers if one.scope.project_id == scope.project_id] == found, life.log


def check_counts(life: Life) -> None:
    """Check that the counts are those of the lists, and that no link leads nowhere that a purge can mend."""
    stats = life.stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=life.project), timeout=TIMEOUT)
    names = [types_pb.MemoryStatus.Name(one.status).removeprefix("MEMORY_STATUS_") for one in life.current.values()]
    assert Counter(names) == dict(stats.count_by_status), life.log
    checked = life.stubs.admin.CheckIntegrity(admin_pb.CheckIntegrityRequest(scope=life.project), timeout=TIMEOUT)
    findings = [one.finding for one in checked if one.HasField("finding")]
    # Other memories may name a purged one as related, or as what they are derived from, until that is mended.
    several = ("related_ids", "derived_from_ids")
    assert [] == [one for one in findings if not (life.purged and one.detail.startswith(several))], life.log


def _searched(life: Life, **request: Any) -> set[str]:
    """Return the ids of all hits by meaning."""
    found: set[str] = set()
    token = ""
    while not found or token:
        asked = search_pb.SearchRequest(
            scope=life.project, mode=SEMANTIC, vector=[1.0] * 256, limit=100, page_token=token, **request
        )
        page = life.stubs.search.Search(asked, timeout=TIMEOUT)
        found |= {hit.memory.id for hit in page.hits}
        token = page.next_page_token
        if not token:
            break
    return found


def _is_current(memory: types_pb.Memory, now: datetime) -> bool:
    """Return whether reads without a filter find the memory at a moment."""
    ends = [getattr(memory, name) for name in ("expire_time", "valid_to") if memory.HasField(name)]
    is_begun = not memory.HasField("valid_from") or memory.valid_from.ToDatetime(tzinfo=UTC) <= now
    return memory.status == ACTIVE and is_begun and all(end.ToDatetime(tzinfo=UTC) > now for end in ends)
