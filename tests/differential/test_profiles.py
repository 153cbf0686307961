"""The profiles answer alike: the same random calls to each, field by field, but for ids, tokens and scores."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import structlog
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_filters import simple_filters
from tests.support.files import messages as upload_messages
from tests.support.postgres_server import schema
from tests.support.qdrant_fake import stand_in
from tests.support.rpc import MODES
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.twins import Key, Twins, without_ids

START = datetime(2026, 2, 6, 8, 0, 0, 999_999, tzinfo=UTC)
STEPS = 90
DIMENSION = 256
LATEST = 60
"""How many of the last ids are named by further calls."""
UNKNOWN = "01900000-0000-7000-8000-000000000000"
MODULES: dict[str, ModuleType] = {
    "admin": admin_pb, "files": file_pb, "lifecycle": lifecycle_pb, "memory": memory_pb, "search": search_pb,
    "session": session_pb,
}  # fmt: skip
ORDERS = (
    "", "create_time", "create_time asc", "update_time desc", "importance asc", "importance desc", "event_time asc",
    "event_time desc", "title",
)  # fmt: skip
WORDS = (
    "gantry", "kelpie", "lozenge", "mangrove", "obelisk", "北京", "上海", "自行车", "straße", "STRASSE", "İzmir", "café",
)  # fmt: skip
STATEMENTS = (
    "Anna lives in Lisbon.", "Anna lives in Porto.", "I live in Leeds.", "I live in York.", "小王住在北京。",
    "小王住在上海。", "I really enjoy alpine hiking.", "The user likes alpine hiking", "I don't like alpine hiking.",
    "Remind me to water the plants on 2026-02-10.", "The dentist appointment is on 2026-03-01 at 10:00.",
    "The dentist appointment was moved to 2026-03-02 at 11:00.", "我妈妈的生日是3月5日。", "I prefer tea to coffee.",
)  # fmt: skip
ODD = (
    "ß", "SS", "ss", "İ", "i̇", "ı", "é", "e\u0301", "Ǆ", "ﬁ", "Å", "\u212b", "\U0010ffff", "\uffff", "\ufeffx", "👩‍👩‍👧",
    "\u202etxet", "\u2028", "\u00a0", "%s", "%(a)s", ":name", "$1", "'", "''", '"', "\\", "\\u0000", "a\\", "_", "%", "{}",
    "[]", "null", "true", "1", "1.0", "01", "ａ", "𝐚", "ŉ", "ß" * 64, "𠀀" * 64, "Σς",
)  # fmt: skip
REFUSED = ("\x00", "\x1f", "\x7f", "\t", "a\x00b", "\x85")
NUMBERS = (
    0, -0.0, 1, 1.5, -2.5, 0.1, 1e-9, 5e-324, 1e308, -1e308, 1.7976931348623157e308, 2**31, 2**53, 2**53 + 2, 2.0**63,
    2.0**64, 1e22, 123456789.123456789,
)  # fmt: skip
SHARES = (0.0, -0.0, 1.0, 0.1, 0.1 + 0.2, 5e-324)
HUGE = (2**31 - 1, 2**40, 2**62, 2**63 - 1)
FILTERS = [one for one in simple_filters() if not one.HasField("access_time")]
TIMES = ("create_time", "update_time", "event_time", "valid_from", "valid_to")
NAMES_OF_KINDS = {
    "names": ("LONG_TERM", "FACT", "CONTEXTUAL", "ACTIVE", "AGENT", "ARCHIVED", "DELETED", "CORE"),
    "numbers": (0, 1, 2, 3.5, 5, 0.1, 1e308),
    "texts": ("", "red", "é", "e\u0301", "a1", "s", "notes/1", *ODD[:8]),
}
KINDS_OF_FIELDS = {
    **dict.fromkeys((1, 2, 4, 5, 17), "names"), **dict.fromkeys((10, 11, 18), "numbers"),
    **dict.fromkeys((12, 13, 15, 19, 20), "times"), **dict.fromkeys((3, 6, 7, 8, 9, 21), "texts"), 16: "metadata",
}  # fmt: skip


class Clock:
    """A clock that stands still until it is moved on."""

    def __init__(self) -> None:
        self.moment = START

    def __call__(self) -> datetime:
        """Return the moment."""
        return self.moment

    def stamp(self, **parts: float) -> Timestamp:
        """Return the moment, or one so much later."""
        found = Timestamp()
        found.FromDatetime(self.moment + timedelta(**parts))
        return found


@pytest.fixture(scope="module")
def clock() -> Clock:
    """The clock of all services."""
    return Clock()


@pytest.fixture(scope="module")
def services(clock: Clock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Stubs]]:
    """A service of each profile."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    folder = tmp_path_factory.mktemp("profiles")
    with ExitStack() as stack:
        stores = [{"url": stack.enter_context(schema()), "durability": "normal"} for _ in range(2)]
        one, other = ({"backend": "sql", "options": options} for options in stores)
        qdrant = {"url": stack.enter_context(stand_in()), "timeout_seconds": 60.0}
        chosen: dict[str, dict[str, Any]] = {
            "embedded": {},
            "postgres": {"profile": "postgres", "metadata": one},
            "cluster": {
                "profile": "cluster", "metadata": other, "vectors": {"options": qdrant},
                "ranking": {"retriever_seconds": 60},
            },
        }  # fmt: skip
        yield [
            stack.enter_context(served(folder / name, now=clock, call_now=clock, **settings))
            for name, settings in chosen.items()
        ]


class Values:
    """Random values of fields, of which most are valid and many are equal."""

    def __init__(self, twins: Twins, clock: Clock, seed: int) -> None:
        self.twins, self.clock = twins, clock
        self.user = f"user-{seed}"
        self.chance = random.Random(seed)
        self.vectors = np.random.default_rng(seed)

    def likely(self, share: float) -> bool:
        """Return whether something happens that happens in this share of all cases."""
        return self.chance.random() < share

    def word(self) -> str:
        """Return a word; few are refused in most fields."""
        kind = self.chance.random()
        return self.chance.choice(REFUSED if kind < 0.003 else ODD if kind < 0.15 else WORDS)

    def part(self) -> str:
        """Return a part of a word."""
        word = self.word()
        start = self.chance.choice((0, 0, 1, len(word) // 2))
        return word[start : start + self.chance.randint(2, 4)] or word

    def text(self) -> str:
        """Return a content."""
        if self.likely(0.5):
            return self.chance.choice(STATEMENTS)
        if self.likely(0.05):
            first, second = (" ".join(self.chance.choices(WORDS, k=count)) for count in (900, 500))
            return f"# Eins\n\n{first}\n\n## Zwei\n\n{second}"
        return " ".join(self.word() for _ in range(self.chance.randint(1, 6)))

    def scope(self) -> types_pb.Scope:
        """Return a place of the user."""
        choice = self.chance.choice
        return types_pb.Scope(
            user_id=self.user, project_id=choice(("", "p", "p", "P", "项目")), agent_id=choice(("", "", "a1", "a2")),
            session_id=choice(("", "", "s", "t")),
        )  # fmt: skip

    def some_id(self) -> str:
        """Return the id of something that was seen."""
        return self.chance.choice([*self.twins.ids[-LATEST:], UNKNOWN])

    def scope_of(self, memory_id: str) -> types_pb.Scope:
        """Return the scope of a memory, or now and then another one."""
        found = self.twins.scopes.get(memory_id)
        if found is None or self.likely(0.1):
            return self.scope()
        places = {name: found.get(name, "") for name in ("project_id", "session_id")}
        return types_pb.Scope(user_id=self.user, **places)

    def by(self) -> dict[str, Any]:
        """Return what names a memory in a request."""
        if self.likely(0.1):
            return {"scope": self.scope(), "key": self.chance.choice(("notes/1", "笔记/é", "daily/2026-02-06"))}
        chosen = self.some_id()
        return {"scope": self.scope_of(chosen), "id": chosen}

    def changed(self) -> dict[str, Any]:
        """Return what names a memory in a request that changes it."""
        return {**self.by(), "request_id": self.request_id()} | (
            {"expected_revision": self.chance.choice((1, 2, *HUGE))} if self.likely(0.1) else {}
        )

    def request_id(self) -> str:
        """Return an id of a request, of which some were used before."""
        return self.chance.choice(("", "", "", self.word(), f"r{self.chance.randint(0, 9)}"))

    def json(self, depth: int = 0) -> Any:
        """Return a value of metadata; below a depth of 3 neither a list nor an object."""
        kind = self.chance.randint(1, 20)
        if kind <= 8:
            return self.chance.choice(NUMBERS)
        if kind <= 12:
            return self.word()
        if kind <= 15 or depth > 3:
            return self.chance.choice((None, True, False, "", 1, "1"))
        members = [self.json(depth + 1) for _ in range(self.chance.randint(0, 3))]
        return members if kind <= 17 else {self.word(): member for member in members}

    def metadata(self) -> Struct:
        """Return metadata."""
        made = Struct()
        names = (self.chance.choice(("n", "size", "名", self.word())) for _ in range(self.chance.randint(0, 3)))
        made.update({name: self.json() for name in names})
        return made

    def stamp(self) -> Timestamp:
        """Return a moment: one near by, to the microsecond, or one of the ends of time."""
        if self.likely(0.1):
            nanos = self.chance.choice((0, 1, 999_999_000, 999_999_999))
            return Timestamp(seconds=self.chance.choice((-62_135_596_800, 253_402_300_799, -1, 0)), nanos=nanos)
        days = self.chance.choice((-400, -20, -3, -1, 1, 3, 90))
        return self.clock.stamp(days=days, microseconds=self.chance.randint(-2, 2))

    def vector(self) -> list[float]:
        """Return a random direction."""
        return [float(one) for one in self.vectors.normal(size=DIMENSION)]

    def memory(self) -> types_pb.Memory:
        """Return a memory to write, with a few of the fields."""
        chance = self.chance
        keys = ("notes/1", "Notes/1", "笔记/é", "笔记/e\u0301", "daily/2026-02-06", self.word())
        name = chance.choice(("", "a", "A", "é", "e\u0301", self.word()))
        fields: dict[str, Any] = {
            "key": chance.choice(keys), "layer": chance.randint(1, 4), "kind": chance.randint(1, 12), "category": name,
            "speaker": name, "title": self.word(), "summary": self.word(), "importance": chance.randint(0, 5),
            "tier": chance.randint(0, 4), "confidence": chance.choice(SHARES), "trust": chance.choice(SHARES),
            "source": chance.choice((self.word(), "𠀀" * 256)), "origin": chance.randint(0, 5), "status": 7,
            "work_in_progress": True, "tags": [self.word() for _ in range(chance.randint(1, 3))],
            "keywords": [types_pb.Keyword(term=self.word(), weight=chance.choice(SHARES)) for _ in range(2)],
            "related_ids": [self.some_id(), self.some_id()], "derived_from_ids": [self.some_id()],
            "file_refs": [types_pb.FileRef(category=chance.randint(1, 7), id=self.word())],  # type: ignore[arg-type] # a number
            "metadata": self.metadata(),
            "reminder": types_pb.Reminder(date=types_pb.CalendarDate(year=2026, month=chance.randint(1, 12), day=chance.randint(1, 31))),
            **{field: self.stamp() for field in ("event_time", "expire_time", "valid_from", "valid_to")},
        }  # fmt: skip
        often = {"tags", "metadata"}
        chosen = {field: value for field, value in fields.items() if self.likely(0.4 if field in often else 0.12)}
        return types_pb.Memory(content=self.text(), **chosen)

    def message(self) -> types_pb.ChatMessage:
        """Return a message of a conversation."""
        chance = self.chance
        optional = {
            "speaker": self.word(), "metadata": self.metadata(), "event_time": self.stamp(), "pinned": True,
            "token_count": chance.choice((1, 100, 10_000_000, 2**31 - 1)),
        }  # fmt: skip
        chosen: dict[str, Any] = {name: value for name, value in optional.items() if self.likely(0.15)}
        chosen["role"] = chance.choice((1, 2, 2, 3))
        return types_pb.ChatMessage(content=self.text(), **chosen)

    def filter(self) -> filters_pb.Filter:
        """Return a filter of several fields."""
        chance, chosen = self.chance, filters_pb.Filter()
        for part in chance.sample(FILTERS, chance.choice((0, 1, 1, 2))):
            chosen.MergeFrom(part)
        chosen.include_not_valid = chosen.include_expired = self.likely(0.4)
        bounds = {"greater_than": chance.choice(NUMBERS), "at_most": chance.choice(NUMBERS)}
        path = chance.choice(("n", "size", "n.size", "名", self.word()))
        ranges: dict[str, types_pb.TimeRange] = {
            chance.choice(TIMES): types_pb.TimeRange(**{end: self.stamp()}) for end in ("start", "end")
        }
        parts = (
            {"statuses": chance.sample(range(1, 8), 3)}, {"tags_any": [self.word()]}, {"where": self.expression(3)},
            {"ids": [self.some_id() for _ in range(5)]}, {"session_visibility": chance.randint(0, 2)}, ranges,
            {"key_prefix": chance.choice(("n", "N", "笔记/", "笔", "%", "_", "daily/2026", "\U0010ffff", "\x00"))},
            {"metadata": [filters_pb.MetadataEquals(path=path, value=value_of(self.json(depth=9)))]},
            {"metadata_ranges": [filters_pb.MetadataRange(path=path, **bounds)]},
        )  # fmt: skip
        for given in parts:
            if self.likely(0.12):
                chosen.MergeFrom(filters_pb.Filter(**given))
        return chosen

    def expression(self, depth: int) -> filters_pb.FilterExpression:
        """Return a tree of conditions."""
        chance = self.chance
        if depth == 0 or self.likely(0.3):
            return filters_pb.FilterExpression(condition=self.condition())
        if self.likely(0.3):
            return filters_pb.FilterExpression(negated=self.expression(depth - 1))
        members = [self.expression(depth - 1) for _ in range(chance.randint(1, 3))]
        group = filters_pb.FilterGroup(expressions=members)
        if self.likely(0.5):
            return filters_pb.FilterExpression(all_of=group)
        return filters_pb.FilterExpression(any_of=group)

    def condition(self) -> filters_pb.FilterCondition:
        """Return a test of one field, now and then one that is refused."""
        chance = self.chance
        field, operator = chance.choice([*KINDS_OF_FIELDS]), chance.randint(1, 9)
        kind = KINDS_OF_FIELDS[field]
        pools: dict[str, Sequence[Any]] = {
            **NAMES_OF_KINDS, "times": [self.stamp().ToJsonString() for _ in range(3)],
            "metadata": NUMBERS if 4 <= operator <= 8 else (*NUMBERS, *WORDS, "1", True, None),
        }  # fmt: skip
        count = {3: chance.randint(1, 3), 8: 2}.get(operator, 1)
        return filters_pb.FilterCondition(
            field=field, operator=operator,  # type: ignore[arg-type] # numbers of the enums
            metadata_path=chance.choice(("n", "size", "名")) if kind == "metadata" else "",
            values=[value_of(one) for one in chance.choices(pools[kind], k=count)],
        )  # fmt: skip

    def as_of(self) -> types_pb.AsOf | None:
        """Return a moment to look back to, or none."""
        if self.likely(0.7):
            return None
        seconds, more = self.chance.choice((0, 1, 20, 60, 200)), self.chance.randint(-1, 1)
        known = self.clock.stamp(seconds=-seconds, microseconds=more)
        valid = self.stamp() if self.likely(0.4) else None
        return types_pb.AsOf(known_time=known, valid_time=valid)


def value_of(given: Any) -> Value:
    """Return a value of a filter."""
    holder = Struct()
    holder.update({"": given})
    return holder.fields[""]


class Calls(Values):
    """Random calls of every service."""

    def __init__(self, twins: Twins, clock: Clock, seed: int) -> None:
        super().__init__(twins, clock, seed)
        self.files: list[str] = []
        self.names: list[str] = ["unknown"]
        self.writes: list[Callable[[], Any]] = []

    def step(self) -> None:
        """Make one call or a few, everywhere."""
        calls: dict[Callable[[], Any], int] = {
            self.create: 14, self.batch: 4, self.import_some: 1, self.update: 8, self.change: 18, self.append: 2,
            self.capture: 4, self.resolve: 3, self.review: 2, self.maintain: 4, self.checkpoint: 3, self.bulk: 2,
            self.session: 6, self.file: 4, self.again: 2, self.wait: 3, self.remind: 2, self.report: 1, self.document: 1,
            self.get: 6, self.list: 10, self.search: 12, self.context: 2, self.history: 3, self.overview: 3,
        }  # fmt: skip
        (call,) = self.chance.choices([*calls], [*calls.values()])
        self.clock.moment += timedelta(seconds=1, microseconds=self.chance.randint(0, 3))
        call()

    def ask(self, service: str, name: str, key: Key | None = None, /, **fields: Any) -> Any:
        """Make a call."""
        request = getattr(MODULES[service], f"{name}Request")(**fields)
        return self.twins.call(lambda stubs: getattr(getattr(stubs, service), name), request, key)

    def pages(self, service: str, name: str, key: Key | None = None, /, **fields: Any) -> Any:
        """Read a list page by page."""
        size = self.chance.choice((1, 2, 7, 100))
        request = getattr(MODULES[service], f"{name}Request")(page_size=size, **fields)
        return self.twins.pages(lambda stubs: getattr(getattr(stubs, service), name), request, key)

    def write(self, service: str, name: str, /, **fields: Any) -> Any:
        """Make a call that may be repeated later."""
        self.writes.append(lambda: self.ask(service, name, **fields))
        return self.ask(service, name, **fields)

    def create(self) -> None:
        self.write(
            "memory", "CreateMemory", scope=self.scope(), memory=self.memory(), request_id=self.request_id(),
            on_duplicate=self.chance.choice((0, 0, 2, 3)), conflict_policy=self.chance.randint(0, 3),
            vector=self.vector() if self.likely(0.3) else [],
        )  # fmt: skip

    def batch(self) -> None:
        memories = [memory_pb.BatchMemory(memory=self.memory()) for _ in range(self.chance.randint(1, 6))]
        self.write(
            "memory", "BatchCreateMemories", scope=self.scope(), memories=memories, request_id=self.request_id(),
            on_duplicate=self.chance.choice((0, 0, 2, 3)), conflict_policy=self.chance.randint(0, 3),
        )  # fmt: skip

    def import_some(self) -> None:
        header = memory_pb.ImportHeader(
            scope=self.scope(), request_id=self.chance.choice(("", "i1")), wait_for=types_pb.WAIT_FOR_INDEXED
        )
        memories = [memory_pb.BatchMemory(memory=self.memory()) for _ in range(6)]
        batches = [memory_pb.ImportBatch(first_index=at, memories=memories[at : at + 3]) for at in (0, 3)]
        parts = [memory_pb.ImportMemoriesRequest(header=header)]
        parts += [memory_pb.ImportMemoriesRequest(batch=batch) for batch in batches]
        self.twins.call(lambda stubs: stubs.memory.ImportMemories, parts, lambda told: _whole(told, "failures"))

    def update(self) -> None:
        new, chance = self.memory(), self.chance
        new.id = self.some_id()
        names = [
            "content", "title", "tags", "importance", "key", "metadata", "event_time", "valid_to", "expire_time",
            "status", "keywords", "summary", "category", "confidence", "related_ids", "reminder", "layer", "nonsense",
        ]  # fmt: skip
        self.write(
            "memory", "UpdateMemory", scope=self.scope_of(new.id), memory=new, request_id=self.request_id(),
            update_mask=FieldMask(paths=chance.sample(names, chance.randint(0, 3))),
            conflict_policy=chance.randint(0, 3), expected_revision=chance.choice((0, 0, 0, 1, 2, *HUGE)),
        )  # fmt: skip

    def change(self) -> None:
        chance = self.chance
        new = types_pb.Memory(id=self.some_id()) if self.likely(0.4) else self.memory()
        service, name, fields = chance.choice(
            (
                ("memory", "DeleteMemory", {"purge": self.likely(0.3)}), ("memory", "RestoreMemory", {}),
                ("memory", "SupersedeMemory", {"memory": new, "conflict_policy": chance.randint(0, 3)}),
                ("memory", "RollbackMemory", {"revision": chance.choice((1, 1, 2, 3, *HUGE))}),
                ("lifecycle", "ArchiveMemory", {}), ("lifecycle", "PromoteMemory", {"title": self.word()}),
                ("lifecycle", "UndoConsolidation", {}),
            )
        )  # fmt: skip
        given: dict[str, Any] = {**self.changed(), **fields}
        self.write(service, name, **given)

    def append(self) -> None:
        key = self.chance.choice(("daily/2026-02-06", "notes/1", "log", self.word()))
        content, metadata = self.text(), self.metadata()
        self.write("memory", "AppendMemory", scope=self.scope(), key=key, content=content, metadata=metadata)

    def capture(self) -> None:
        if self.likely(0.3):
            messages, artifacts = [self.message() for _ in range(4)], [self.word()] if self.likely(0.2) else []
            self.write("memory", "FlushMessages", scope=self.scope(), messages=messages, artifact_ids=artifacts)
        else:
            fields = {"dry_run": self.likely(0.2), "request_id": self.request_id(), "tags": [self.word()]}
            self.write("memory", "CaptureMemory", scope=self.scope(), message=self.message(), **fields)

    def resolve(self) -> None:
        # Conflicts of one moment are in the order of their ids.
        states = self.chance.choice(([], [1], range(1, 6)))
        told = self.pages("memory", "ListConflicts", without_ids("conflicts"), scope=self.scope(), states=states)
        if ids := _ids_of(told, "conflicts"):
            chosen, resolution = self.chance.choice(ids), self.chance.randint(1, 3)
            self.write("memory", "ResolveConflict", scope=self.scope(), id=chosen, resolution=resolution)
        fields = {"conflict_policy": self.chance.randint(1, 3), "dry_run": self.likely(0.5), "scope": self.scope()}
        self.ask("lifecycle", "DetectConflicts", lambda told: _whole(told, "conflicts"), **fields)

    def review(self) -> None:
        told = self.pages("memory", "ListQuarantined", scope=self.scope())
        if ids := _ids_of(told, "memories"):
            chosen, verdict = self.chance.choice(ids), self.chance.randint(1, 2)
            self.write("memory", "ReviewMemory", scope=self.scope(), id=chosen, verdict=verdict)

    def maintain(self) -> None:
        chance = self.chance
        kind = chance.randint(1, 3)
        if kind == 1:
            self.write("lifecycle", "ConsolidateMemories", scope=self.scope(), dry_run=self.likely(0.5))
        elif kind == 2:
            self.write("lifecycle", "SummarizePeriod", scope=self.scope(), month=chance.choice(("2026-02", "2026-13")))
        else:
            fields = {"steps": chance.sample((1, 2, 3, 4, 5, 6, 8), 3), "dry_run": self.likely(0.3)}
            scope = types_pb.Scope(user_id=self.user)
            self.ask("lifecycle", "RunMaintenance", lambda told: _whole(told, "changes"), scope=scope, **fields)

    def checkpoint(self) -> None:
        chance = self.chance
        name = chance.choice((f"at {len(self.names)}", "é", "e\u0301", self.word()))
        self.names.append(name)
        self.write("lifecycle", "CreateCheckpoint", scope=self.scope(), name=name, note=self.word())
        self.pages("lifecycle", "ListCheckpoints", scope=self.scope())
        self.pages("lifecycle", "DiffCheckpoint", scope=self.scope(), checkpoint=chance.choice(self.names))
        if self.likely(0.4):
            fields = {"checkpoint": chance.choice(self.names), "dry_run": self.likely(0.4)}
            self.write("lifecycle", "RollbackToCheckpoint", scope=self.scope(), **fields)

    def bulk(self) -> None:
        chance, chosen = self.chance, self.filter()
        if self.likely(0.3):
            few = filters_pb.Filter(ids=[self.some_id() for _ in range(3)])
            asked: Any = memory_pb.DeleteMemoriesRequest(scope=self.scope(), filter=few)
            self.twins.previewed(lambda stubs: stubs.memory.DeleteMemories, asked)
            return
        mask = FieldMask(paths=chance.sample(("importance", "category", "event_time", "metadata", "title"), 1))
        fields = {"add_tags": [self.word()], "remove_tags": [self.word()], "update_mask": mask, "memory": self.memory()}
        asked = memory_pb.UpdateMemoriesRequest(scope=self.scope(), filter=chosen, **fields)  # type: ignore[arg-type]
        self.twins.previewed(lambda stubs: stubs.memory.UpdateMemories, asked)

    def session(self) -> None:
        chance, scope = self.chance, self.scope()
        scope.session_id = chance.choice(("s", "t", "é", self.word()))
        limit = chance.choice((0, 100, 10_000_000, 2**31 - 1))
        messages = [self.message() for _ in range(chance.randint(1, 4))]
        choices: dict[str, dict[str, Any]] = {
            "CreateSession": {"title": self.word(), "token_limit": limit, "metadata": self.metadata()},
            "AppendMessages": {"messages": messages, "request_id": self.request_id()},
            "PopMessages": {"count": chance.randint(0, 3)}, "TrimSession": {"target_tokens": chance.choice((0, 20))},
            "CloseSession": {}, "ReopenSession": {}, "ClearMessages": {},
        }  # fmt: skip
        (name,) = chance.choices([*choices], (4, 4, 1, 1, 1, 1, 1))
        self.write("session", name, scope=scope, **choices[name])
        self.ask("session", "GetSession", scope=scope)
        self.pages("session", "ListMessages", scope=scope, include_archived=True, newest_first=self.likely(0.5))
        self.pages("session", "ListSessions", scope=scope)

    def file(self) -> None:
        chance, scope = self.chance, self.scope()
        chosen = chance.choice([*self.files, UNKNOWN])
        if self.likely(0.6):
            header = {
                "name": chance.choice((f"{self.word()}.md", "报告.txt", "ÉTÉ.txt", "été.txt")),
                "category": chance.randint(0, 7), "metadata": self.metadata(), "request_id": self.request_id(),
            }  # fmt: skip
            parts = [*upload_messages(scope, self.text().encode(), **header)]
            told = self.twins.call(lambda stubs: stubs.files.UploadFile, parts)
            self.files += [one.file.id for one in told] if isinstance(told, list) else []
        elif self.likely(0.3):
            self.write("files", "DeleteFile", scope=scope, id=chosen)
        else:
            part = {"offset": chance.choice((0, 1, *HUGE)), "length": chance.choice((0, 1, *HUGE))}
            self.ask("files", "DownloadFile", _without_text, scope=scope, id=chosen, **part)
        fields = {
            "query": chance.choice(("", "", "été", "ETE", "ß", self.word())),
            "media_type": chance.choice(("", "text/")),
        }
        self.pages("files", "ListFiles", _without_text, scope=scope, **fields)

    def document(self) -> None:
        header = memory_pb.DocumentHeader(scope=self.scope(), name=f"{self.word()}.md", request_id=self.request_id())
        text = f"# 一\n\n{' '.join(self.chance.choices(WORDS, k=400))}\n\n{self.text()}".encode()
        parts = [memory_pb.IngestDocumentRequest(header=header), memory_pb.IngestDocumentRequest(data=text)]
        self.twins.call(lambda stubs: stubs.memory.IngestDocument, parts)

    def again(self) -> None:
        if self.writes:
            self.chance.choice(self.writes[-40:])()

    def wait(self) -> None:
        self.clock.moment += timedelta(seconds=self.chance.choice((1, 60, 3_600, 86_400, 864_000)))

    def remind(self) -> None:
        chance = self.chance
        fields = {"overdue_days": chance.choice((0, 3, 400)), "days_ahead": chance.choice((0, 7, 300))}
        zone = chance.choice(("", "Asia/Shanghai", "Nowhere/X"))
        self.pages("lifecycle", "ListDueReminders", _without_currency, scope=self.scope(), time_zone=zone, **fields)
        date = types_pb.CalendarDate(year=2026, month=chance.randint(1, 4), day=chance.choice((5, 10, 31)))
        self.write("lifecycle", "AcknowledgeReminder", **self.by(), date=date)

    def report(self) -> None:
        chance = self.chance
        reports = [
            search_pb.UseReport(
                memory_id=self.some_id(), outcome=chance.randint(1, 3),  # type: ignore[arg-type] # a number of the enum
                revision=chance.choice((0, 1, *HUGE)), position=chance.choice((0, 1, 2**31 - 1)),
            )
            for _ in range(3)
        ]  # fmt: skip
        self.write("search", "ReportUse", scope=self.scope(), query=self.text(), reports=reports)
        self.pages("search", "ListUseReports", scope=self.scope(), session_visibility=chance.randint(0, 2))
        self.ask("search", "GetUseFeedback", scope=self.scope())

    def get(self) -> None:
        chance = self.chance
        also: dict[str, Any] = {f"include_{name}": self.likely(0.3) for name in ("chain", "files", "use_counts")}
        revision = chance.choice((0, 0, 0, 1, 2, *HUGE))
        self.ask("memory", "GetMemory", **self.by(), **also, revision=revision, as_of=self.as_of())
        ids, keys = [self.some_id() for _ in range(4)], [chance.choice(("notes/1", "笔记/é", self.word()))]
        self.ask("memory", "BatchGetMemories", scope=self.scope(), ids=ids, keys=keys)

    def list(self) -> None:
        fields: dict[str, Any] = {
            "filter": self.filter(),
            "order_by": self.chance.choice(ORDERS),
            "as_of": self.as_of(),
        }
        self.pages("memory", "ListMemories", scope=self.scope(), **fields)

    def search(self) -> None:
        chance = self.chance
        fields: dict[str, Any] = {
            "filter": self.filter(), "as_of": self.as_of(), "limit": 100, "query": self.text(), "mode": chance.choice(MODES),
            "keywords": [self.word()] if self.likely(0.2) else [], "include_files": self.likely(0.2),
            "time_range": types_pb.TimeRange(start=self.stamp()) if self.likely(0.2) else None,
        }  # fmt: skip
        if self.likely(0.4):
            fields |= {"word_match": chance.randint(2, 3), "keywords": [self.part(), self.part()]}
        if self.likely(0.2):
            fields["weighting"] = search_pb.Weighting(preset=search_pb.WEIGHTING_PRESET_LONG_TERM_FIRST)
        self.ask("search", "Search", _hits, scope=self.scope(), **fields)
        if self.likely(0.1):
            self.ask("search", "SearchAll", _contents, scope=self.scope(), query=self.text(), limit=50)

    def context(self) -> None:
        # Memories that a query finds are in the order of scores, which are each index's own.
        query = self.chance.choice(("", self.text()))
        tokens = 100_000 if query else self.chance.choice((200, 2_000, 100_000))
        options = search_pb.ContextOptions(total_tokens=tokens, as_of=self.as_of())
        self.ask(
            "search", "RenderContext", _citations if query else None, scope=self.scope(), query=query, options=options
        )
        self.ask("search", "LoadCore", scope=self.scope(), limit=self.chance.choice((0, 1, 50)))

    def history(self) -> None:
        self.pages("memory", "ListRevisions", **self.by())

    def overview(self) -> None:
        self.pages("memory", "ListScopes", user_id=self.user)
        self.pages("admin", "ListProjects", user_id=self.user)
        self.pages("admin", "ListAgents", user_id=self.user)
        self.ask("admin", "GetStats", _without_bytes, scope=self.scope())
        self.ask("admin", "CheckIntegrity", _findings, scope=self.scope())


def _whole(told: list[dict[str, Any]], field: str) -> Any:
    """Return the last response of a stream, and a list that is spread over all of them."""
    return told[-1], [member for one in told for member in one.get(field, [])]


def _ids_of(told: Any, field: str) -> list[str]:
    return [one.id for page in told for one in getattr(page, field)] if isinstance(told, list) else []


def _without_text(told: list[dict[str, Any]]) -> Any:
    """Return files without the state of their text, which is extracted later."""
    for one in told:
        for file in [*one.get("files", []), one.get("file", {})]:
            file.pop("text", None)
    return told


def _without_currency(told: list[dict[str, Any]]) -> Any:
    """Return reminders without what is judged by an index in the time that is left."""
    return [
        {name: value for name, value in reminder.items() if name not in {"currency", "newer_memory_id"}}
        for page in told
        for reminder in page.get("reminders", [])
    ]


def _hits(told: list[dict[str, Any]]) -> Any:
    """Return the memories that were found, in an order of their own."""
    [one] = told
    found = without_ids("memories")([{"memories": [hit["memory"] for hit in one.get("hits", [])]}])
    return found, one.get("degraded"), one.get("skipped"), one.get("next_page_token")


def _contents(told: list[dict[str, Any]]) -> Any:
    [one] = told
    return sorted(hit["memory"]["content"] for hit in one.get("memories", []))


def _citations(told: list[dict[str, Any]]) -> Any:
    [one] = told
    return len(one.get("citations", [])), one.get("warnings")


def _without_bytes(told: list[dict[str, Any]]) -> Any:
    return [{name: value for name, value in one.items() if "bytes" not in name} for one in told]


def _findings(told: list[dict[str, Any]]) -> Any:
    return sorted(repr({**one["finding"], "memory_id": ""}) for one in told if "finding" in one)


def test_profiles_answer_alike(services: list[Stubs], clock: Clock) -> None:
    """Writes, changes, lists in every order, searches, history and refusals, with texts and numbers of every sort."""
    calls = Calls(Twins(services), clock, seed=23)
    for _ in range(STEPS):
        calls.step()
