"""Filters over the wire: every one, in every retriever, against its meaning in plain Python; pushed down."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.filter_oracle import ENUMS, NUMBERS, TIMES, matches
from tests.support.rpc import TIMEOUT, WAYS, create_all, found, get, list_all, search
from tests.support.server_process import Stubs
from tests.support.until import until

WORD = "kiwi"
DAYS = 86_400
NOW = datetime.now(UTC)
ALL_STATUSES = list(range(1, 7))


def struct(**members: Any) -> Struct:
    """Return metadata."""
    message = Struct()
    message.update(members)
    return message


def value(of: Any) -> Value:
    """Return a JSON value."""
    return Value(null_value=0) if of is None else struct(x=of).fields["x"]  # type: ignore[arg-type] # the only null


def days_ago(days: float) -> Timestamp:
    """Return the moment so many days before the tests began."""
    stamp = Timestamp()
    stamp.FromDatetime(NOW - timedelta(days=days))
    return stamp


def varied(number: int) -> types_pb.Memory:
    """Return one of many memories that differ in every field that a filter can test."""
    return types_pb.Memory(
        content=f"The {WORD} grows in garden {number}.",
        keywords=[types_pb.Keyword(term=WORD, weight=0.5), types_pb.Keyword(term=f"k{number}")],
        scope=types_pb.Scope(
            project_id="p" if number % 3 else "",
            agent_id=("", "a1", "a2")[number % 3],
            session_id=("s", "s", "", "t")[number % 4],
        ),
        layer=(4, 3, 1, 4, 2)[number % 5] if number % 4 != 2 else 4,  # type: ignore[arg-type] # numbers of the enum
        kind=1 + number % 12,  # type: ignore[arg-type] # as above
        category=("", "food", "Food", "garden tools")[number % 4],
        speaker=("", "Ann", "ann", "李雷")[(number // 2) % 4],
        tags=[tag for bit, tag in enumerate(("red", "green", "绿")) if number >> bit & 1],
        importance=1 + number % 5,
        tier=1 + (number // 3) % 4,  # type: ignore[arg-type] # as above
        confidence=(number % 6) / 5,
        key=f"{('notes/', 'Notes/', '笔记/二月/', '笔记/')[number % 4]}{number}" if number % 5 else "",
        event_time=days_ago((number - 5) * 3.5) if number % 3 != 1 else None,
        expire_time=(None, days_ago(2), days_ago(-2))[(number // 2) % 3],
        metadata=struct(
            n=number % 4, flag=bool(number % 2), name=f"v{number % 3}",
            deep={"list": [number % 5, {"x": number % 2}, [f"l{number % 4}"]], "null": None if number % 2 else 0},
            size=(-2.5, 0, 1e-9, 7, [3, -40.25, "12"], "7", 2**53 + 2, -1)[number % 8],
            **({"a.b": "dotted"} if number % 5 == 0 else {"a": {"b": "nested"}}),
        ) if number % 7 else None,
    )  # fmt: skip


class Garden:
    """A user with memories of every sort, and what they look like in the store."""

    def __init__(self, stubs: Stubs) -> None:
        self.stubs = stubs
        self.scope = types_pb.Scope(user_id=f"garden-{uuid.uuid4()}", project_id="p", session_id="s")
        self.memories: list[types_pb.Memory] = []

    def plant(self) -> None:
        """Store all, change some, and read all once, so that no later read changes a time."""
        world = types_pb.Scope(user_id=self.scope.user_id)
        planted = create_all(self.stubs, world, [varied(number) for number in range(36)])
        for number, memory in enumerate(planted):
            place = types_pb.Scope(
                user_id=world.user_id, project_id=memory.scope.project_id, session_id=memory.scope.session_id
            )
            if number % 6 == 5:
                archived = types_pb.Memory(id=memory.id, status=types_pb.MEMORY_STATUS_ARCHIVED)
                self.stubs.memory.UpdateMemory(
                    memory_pb.UpdateMemoryRequest(scope=place, memory=archived), timeout=TIMEOUT
                )
            if number % 13 == 4:
                self.stubs.memory.DeleteMemory(
                    memory_pb.DeleteMemoryRequest(scope=place, id=memory.id), timeout=TIMEOUT
                )
            else:
                get(self.stubs, place, memory.id)
            self.memories.append(memory)
        read = {memory.id for number, memory in enumerate(planted) if number % 13 != 4}
        self._settle(read)

    def _settle(self, read: set[str]) -> None:
        every = filters_pb.Filter(statuses=ALL_STATUSES, tiers=[1, 2, 3, 4], include_expired=True)

        def is_settled() -> bool:
            listed: dict[str, types_pb.Memory] = {}
            for project in ("", "p"):
                for session in ("s", "t"):
                    place = types_pb.Scope(user_id=self.scope.user_id, project_id=project, session_id=session)
                    listed |= {memory.id: memory for memory in list_all(self.stubs, place, filter=every)}
            self.memories = [listed[memory.id] for memory in self.memories]
            return all(listed[memory_id].HasField("access_time") for memory_id in read)

        until(is_settled)

    def expected(self, chosen: filters_pb.Filter, scope: types_pb.Scope) -> set[str]:
        """Return the ids of the memories that the filter means."""
        now = datetime.now(UTC)
        return {memory.id for memory in self.memories if matches(memory, chosen, scope, now)}


@pytest.fixture(scope="module")
def garden(stubs: Stubs) -> Garden:
    """A garden whose accesses lie in the past."""
    garden = Garden(stubs)
    garden.plant()
    return garden


def span(start: Timestamp | None = None, end: Timestamp | None = None) -> types_pb.TimeRange:
    """Return a span of time."""
    return types_pb.TimeRange(start=start, end=end)


def condition(field: int, operator: int, *values: Any, path: str = "") -> filters_pb.FilterExpression:
    """Return the test of one field."""
    return filters_pb.FilterExpression(
        condition=filters_pb.FilterCondition(
            field=field,  # type: ignore[arg-type] # numbers of the enums
            operator=operator,  # type: ignore[arg-type] # as above
            metadata_path=path,
            values=[value(one) for one in values],
        )
    )


def simple_filters() -> Iterator[filters_pb.Filter]:
    """Return filters of every field, alone."""
    for name, lists in {
        "layers": [[1], [3, 4], [2]],
        "kinds": [[1], [2, 5, 12]],
        "categories": [["food"], ["Food", ""], ["foo"]],
        "tiers": [[1], [4], [2, 3, 4]],
        "statuses": [[2], [1, 2], [6], [3], ALL_STATUSES],
        "tags_any": [["red"], ["green", "绿"], ["Red"], ["red", "none"]],
        "tags_all": [["red"], ["red", "绿"], ["red", "none"]],
        "agent_ids": [["a1"], ["", "a2"], ["a"]],
        "session_ids": [["s"], ["t"], [""], ["s", "t", ""]],
        "speakers": [["Ann"], ["李雷", ""], ["Ann ", "nobody"]],
        "min_importance": [2, 5],
        "max_importance": [1, 4],
        "min_confidence": [0.0, 0.4, 1.0],
        "max_confidence": [0.0, 0.6],
        "project_visibility": [1, 2, 3],
        "last_days": [1, 4, 400],
        "include_expired": [True],
    }.items():
        for given in lists:
            yield filters_pb.Filter(**{name: given})  # type: ignore[arg-type] # any field
    yield filters_pb.Filter(min_importance=2, max_importance=3)
    for field in range(5):
        for days in (1, 8, 36_500):
            yield filters_pb.Filter(last_days=days, last_days_field=field)  # type: ignore[arg-type] # numbers of the enum
    bounds = (None, days_ago(20), days_ago(0.5), days_ago(-1))
    for name in TIMES.values():
        for start, end in ((None, None), *((a, b) for a in bounds for b in bounds if a != b)):
            if start is None or end is None or start.seconds < end.seconds:
                yield filters_pb.Filter(**{name: span(start, end)})  # type: ignore[arg-type] # any field
    for path, wanted in (
        ("n", 2), ("n", 2.0), ("n", "2"), ("flag", True), ("flag", 1), ("name", "v1"), ("name", "V1"),
        ("deep.list", 3), ("deep.list", "l1"), ("deep.list.x", 1), ("deep.null", None), ("deep.null", 0),
        ("deep", None), ("missing", None), ("a.b", "dotted"), ("a.b", "nested"), ("n.x", 1),
    ):  # fmt: skip
        yield filters_pb.Filter(metadata=[filters_pb.MetadataEquals(path=path, value=value(wanted))])
    for prefix in ("notes/", "notes/1", "笔记/二月/", "笔记/", "笔记/二月/1", "Notes", "n", "none"):
        yield filters_pb.Filter(key_prefix=prefix)
    for path, bounds_ in (
        ("n", {"at_least": 2}), ("n", {"greater_than": 1, "less_than": 3}), ("n", {"less_than": 0}),
        ("n", {"at_most": 1.5}), ("size", {"at_least": 0}), ("size", {"less_than": 0}), ("size", {"greater_than": 0}),
        ("size", {"at_least": -3, "at_most": -1}), ("size", {"at_least": 4, "at_most": 6.99}),
        ("size", {"greater_than": 2**53}), ("size", {"at_least": -1e300, "at_most": 1e300}),
        ("size", {"greater_than": 0, "at_most": 1e-9}), ("deep.list", {"at_least": 3}), ("deep.list.x", {"at_most": 0}),
        ("flag", {"at_least": 0}), ("name", {"at_least": -1e300}), ("missing", {"at_most": 1e300}),
    ):  # fmt: skip
        yield filters_pb.Filter(metadata_ranges=[filters_pb.MetadataRange(path=path, **bounds_)])
    yield filters_pb.Filter(
        metadata=[
            filters_pb.MetadataEquals(path="n", value=value(1)),
            filters_pb.MetadataEquals(path="flag", value=value(True)),
        ]
    )


def random_filter(chance: random.Random, garden: Garden) -> filters_pb.Filter:
    """Return a filter of several fields, mostly one that matches something."""
    chosen = filters_pb.Filter(include_expired=chance.random() < 0.5)
    pool = [one for one in simple_filters() if not one.include_expired]
    for part in chance.sample(pool, chance.choice((0, 1, 1, 2))):
        chosen.MergeFrom(part)
    if chosen.min_importance > chosen.max_importance:
        chosen.max_importance = 0
    if chosen.HasField("min_confidence") and chosen.HasField("max_confidence"):
        chosen.ClearField("max_confidence")
    if chance.random() < 0.2:
        chosen.ids.extend(one.id.upper() for one in chance.sample(garden.memories, 12))
    if chance.random() < 0.9:
        chosen.where.CopyFrom(random_expression(chance, garden, depth=chance.choice((1, 2, 3, 5))))
    return chosen


def random_expression(chance: random.Random, garden: Garden, *, depth: int) -> filters_pb.FilterExpression:
    """Return an expression over values that the garden's memories have, and some that none has."""
    if depth > 1 and chance.random() < 0.8:
        if chance.random() < 0.3:
            return filters_pb.FilterExpression(negated=random_expression(chance, garden, depth=depth - 1))
        children = [random_expression(chance, garden, depth=depth - 1) for _ in range(chance.choice((1, 2, 3)))]
        group = filters_pb.FilterGroup(expressions=children)
        if chance.random() < 0.6:
            return filters_pb.FilterExpression(any_of=group)
        return filters_pb.FilterExpression(all_of=group)
    field = chance.choice(list(filters_pb.FilterField.values())[1:])
    memory = chance.choice(garden.memories)
    is_metadata = field == filters_pb.FILTER_FIELD_METADATA
    comparable = field in TIMES or field in NUMBERS or is_metadata
    operator = chance.choice((1, 2, 3, 4, 5, 6, 7, 8) if comparable else (1, 2, 3))
    if field == filters_pb.FILTER_FIELD_KEY and chance.random() < 0.5:
        return condition(
            field, filters_pb.FILTER_OPERATOR_STARTS_WITH, chance.choice(("notes/", "笔记/", "N", "笔记/二"))
        )
    path = chance.choice(("n", "flag", "name", "deep.list", "deep.list.x", "a.b", "deep.null", "none", "size"))
    path = path if is_metadata else ""
    if is_metadata and operator > filters_pb.FILTER_OPERATOR_IN:
        values = sorted(chance.choices((-41, -2.5, 0, 1e-10, 1, 2.5, 3, 7, 2.0**53), k=2))
        return condition(field, operator, *values[: 1 + (operator == filters_pb.FILTER_OPERATOR_BETWEEN)], path=path)
    count = chance.choice((1, 2, 3)) if operator == filters_pb.FILTER_OPERATOR_IN else 1
    drawn = [_some_value(chance, field, memory) for _ in range(count)]
    return condition(
        field, operator, *(drawn * 2 if operator == filters_pb.FILTER_OPERATOR_BETWEEN else drawn), path=path
    )


def _some_value(chance: random.Random, field: int, memory: types_pb.Memory) -> Any:
    if field in TIMES:
        stamp: Timestamp = getattr(memory, TIMES[field])
        return (stamp if stamp.seconds else days_ago(chance.randrange(-9, 60))).ToJsonString()
    if field in ENUMS:
        _, enum, prefix = ENUMS[field]
        return enum.Name(chance.choice(enum.values()[1:])).removeprefix(prefix)
    return chance.choice(
        {
            filters_pb.FILTER_FIELD_CATEGORY: ("", "food", "Food", "none"),
            filters_pb.FILTER_FIELD_TAG: ("red", "green", "绿", "none"),
            filters_pb.FILTER_FIELD_SPEAKER: ("", "Ann", "ann", "李雷"),
            filters_pb.FILTER_FIELD_AGENT_ID: ("", "a1", "a2", "a"),
            filters_pb.FILTER_FIELD_SESSION_ID: ("", "s", "t"),
            filters_pb.FILTER_FIELD_KEY: ("", memory.key, "notes/", "笔记/3"),
            filters_pb.FILTER_FIELD_IMPORTANCE: (1, 2, 2.5, 4, 9, -1e300),
            filters_pb.FILTER_FIELD_CONFIDENCE: (0, 0.2, 0.4, 0.5, 1, 7),
            filters_pb.FILTER_FIELD_TRUST: (0, 0.5, 0.8, 1),
            filters_pb.FILTER_FIELD_METADATA: (0, 1, 2, 3, True, False, "v1", "l2", "nested", "dotted", None),
        }[field]
    )


def assert_meaning(garden: Garden, chosen: filters_pb.Filter, scope: types_pb.Scope, way: str) -> set[str]:
    """Check one filter in one way of searching, and return what it found."""
    expected = garden.expected(chosen, scope)
    # Deleted memories are in no index: only a list finds them.
    living = {memory.id for memory in garden.memories if memory.status != types_pb.MEMORY_STATUS_DELETED}
    hits = search(garden.stubs, scope, WORD, filter=chosen, limit=100, **WAYS[way]).hits
    assert expected & living == {hit.memory.id for hit in hits}, (chosen, scope, way)
    return expected


@pytest.mark.parametrize("way", WAYS)
def test_every_filter_means_the_same_in_every_retriever(garden: Garden, way: str) -> None:
    """For each field the hits are just the memories that the filter describes; none is empty for all of them."""
    sizes = [len(assert_meaning(garden, chosen, garden.scope, way)) for chosen in simple_filters()]

    assert sum(0 < size < 20 for size in sizes) > len(sizes) / 2


def test_every_filter_means_the_same_in_a_list(garden: Garden) -> None:
    """Deleted memories too, when the filter names that status; from several scopes."""
    user = garden.scope.user_id
    for scope in (
        garden.scope, types_pb.Scope(user_id=user), types_pb.Scope(user_id=user, project_id="p", session_id="t"),
        types_pb.Scope(user_id=user, project_id="q", session_id="s"),
    ):  # fmt: skip
        for chosen in simple_filters():
            listed = {memory.id for memory in list_all(garden.stubs, scope, filter=chosen)}
            assert garden.expected(chosen, scope) == listed, (chosen, scope)


@pytest.mark.parametrize("way", WAYS)
def test_a_memory_never_read_has_no_access_time(stubs: Stubs, scope: types_pb.Scope, way: str) -> None:
    """It matches no filter on that time, and the negation of every one."""
    memories = create_all(stubs, scope, [varied(number) for number in (1, 4, 7, 13)])
    place = types_pb.Scope(user_id=scope.user_id, project_id="p", session_id="s")
    read = {memory.id for memory in memories[:2]}
    for memory_id in read:
        get(stubs, place, memory_id)
    every = filters_pb.Filter(include_expired=True, tiers=[1, 2, 3, 4])
    until(lambda: read == {one.id for one in list_all(stubs, place, filter=every) if one.HasField("access_time")})
    recent = filters_pb.Filter(last_days=1, last_days_field=filters_pb.TIME_FIELD_ACCESS_TIME)
    at_all = filters_pb.Filter(access_time=span())
    since = condition(
        filters_pb.FILTER_FIELD_ACCESS_TIME, filters_pb.FILTER_OPERATOR_GREATER, days_ago(30).ToJsonString()
    )

    for chosen in (recent, at_all, filters_pb.Filter(where=since)):
        chosen.MergeFrom(every)
        assert read == {hit.memory.id for hit in search(stubs, place, WORD, filter=chosen, **WAYS[way]).hits}
    unread = filters_pb.Filter(where=filters_pb.FilterExpression(negated=since))
    unread.MergeFrom(every)
    found_ = {hit.memory.id for hit in search(stubs, place, WORD, filter=unread, **WAYS[way]).hits}
    assert {memory.id for memory in memories[2:]} == found_


@pytest.mark.parametrize("seed", range(4))
def test_any_combination_of_filters_means_what_it_says(garden: Garden, seed: int) -> None:
    """Fields together with nested expressions, in every retriever and in a list."""
    chance = random.Random(seed)
    sizes = []
    for _ in range(25):
        chosen = random_filter(chance, garden)
        listed = {memory.id for memory in list_all(garden.stubs, garden.scope, filter=chosen)}
        assert garden.expected(chosen, garden.scope) == listed, chosen
        for way in WAYS:
            sizes.append(len(assert_meaning(garden, chosen, garden.scope, way)))

    assert sum(size > 0 for size in sizes) > len(sizes) / 3


CROWD = 200
FIT = f"There are many other things in this long line before and after the {WORD}, such as lamps and letters."
NEAR, FAR = [1.0, 0.0] * 128, [0.3, 1.0] * 128
"""The vector of the query and the crowd, and the one that fits less."""


def crowded(stubs: Stubs, scope: types_pb.Scope, theirs: dict[str, Any], own: dict[str, Any]) -> types_pb.Memory:
    """Store memories that fit the query better than `FIT`, more than any retriever looks at; then that, and return it."""
    keywords = [types_pb.Keyword(term=WORD, weight=1.0), types_pb.Keyword(term="fruit", weight=1.0)]
    entries = [
        memory_pb.BatchMemory(
            memory=types_pb.Memory(content=f"{WORD} {WORD} {number}", keywords=keywords, **theirs), vector=NEAR
        )
        for number in range(CROWD)
    ]
    fit = types_pb.Memory(content=FIT, keywords=[types_pb.Keyword(term=WORD, weight=0.1)], **own)
    for batch in (entries, [memory_pb.BatchMemory(memory=fit, vector=FAR)]):
        request = memory_pb.BatchCreateMemoriesRequest(scope=scope, memories=batch)
        results = stubs.memory.BatchCreateMemories(request, timeout=TIMEOUT).results
        assert {types_pb.WRITE_OUTCOME_CREATED} == {result.outcome for result in results}
    return results[0].memory


WHERE = condition(filters_pb.FILTER_FIELD_TAG, filters_pb.FILTER_OPERATOR_NOT_EQUALS, "crowd")
CROWDED: dict[str, tuple[dict[str, Any], dict[str, Any], Callable[[types_pb.Memory], filters_pb.Filter]]] = {
    "layer": ({"layer": 1}, {"layer": 4}, lambda _: filters_pb.Filter(layers=[4])),
    "kind": ({"kind": 1}, {"kind": 2}, lambda _: filters_pb.Filter(kinds=[2])),
    "category": ({"category": "x"}, {}, lambda _: filters_pb.Filter(categories=[""])),
    "tier": ({"tier": 4}, {}, lambda _: filters_pb.Filter()),
    "expired": ({"expire_time": Timestamp(seconds=9)}, {}, lambda _: filters_pb.Filter()),
    "tags": ({"tags": ["a"]}, {"tags": ["a", "b"]}, lambda _: filters_pb.Filter(tags_all=["a", "b"])),
    "importance": ({"importance": 2}, {"importance": 4}, lambda _: filters_pb.Filter(min_importance=3)),
    "confidence": ({"confidence": 0.5}, {"confidence": 0.9}, lambda _: filters_pb.Filter(min_confidence=0.8)),
    "speaker": ({"speaker": "Ann"}, {"speaker": "Bo"}, lambda _: filters_pb.Filter(speakers=["Bo"])),
    "agent": ({"scope": types_pb.Scope(agent_id="a")}, {}, lambda _: filters_pb.Filter(agent_ids=[""])),
    "session": (
        {"scope": types_pb.Scope(session_id="s")}, {"scope": types_pb.Scope(session_id="t")},
        lambda _: filters_pb.Filter(session_ids=["t"]),
    ),
    "private": ({"scope": types_pb.Scope(session_id="s"), "layer": 2}, {}, lambda _: filters_pb.Filter()),
    "project": ({"scope": types_pb.Scope(project_id="q")}, {}, lambda _: filters_pb.Filter()),
    "global": ({}, {"scope": types_pb.Scope(project_id="p")}, lambda _: filters_pb.Filter(project_visibility=2)),
    "event_time": (
        {"event_time": days_ago(9)}, {"event_time": days_ago(2)}, lambda _: filters_pb.Filter(event_time=span(days_ago(3))),
    ),
    "create_time": ({}, {}, lambda fit: filters_pb.Filter(create_time=span(fit.create_time))),
    "metadata": (
        {"metadata": struct(a={"b": 1})}, {"metadata": struct(a={"b": 2})},
        lambda _: filters_pb.Filter(metadata=[filters_pb.MetadataEquals(path="a.b", value=value(2))]),
    ),
    "id": ({}, {}, lambda fit: filters_pb.Filter(ids=[fit.id])),
    "where": ({"tags": ["crowd"]}, {}, lambda _: filters_pb.Filter(where=WHERE)),
}  # fmt: skip
"""What the crowd has, what the one that fits has, and the filter that tells them apart."""


@pytest.mark.parametrize("name", CROWDED)
def test_what_a_filter_excludes_does_not_crowd_out_what_it_wants(
    stubs: Stubs, scope: types_pb.Scope, name: str
) -> None:
    """Filters are pushed down: 200 better matches that are excluded hide nothing, in any retriever."""
    theirs, own, filter_of = CROWDED[name]
    fit = crowded(stubs, scope, theirs, own)
    reader = types_pb.Scope(user_id=scope.user_id, project_id="p", session_id="r")

    def hits(way: str, chosen: filters_pb.Filter) -> list[str]:
        return found(stubs, reader, f"{WORD} fruit", filter=chosen, limit=100, vector=NEAR, **WAYS[way])

    for way in WAYS:
        assert [FIT] == hits(way, filter_of(fit)), way
    if name not in {"project", "private"}:
        everything = filters_pb.Filter(include_expired=True, tiers=[1, 2, 3, 4])
        assert not any(FIT in hits(way, everything) for way in WAYS)
