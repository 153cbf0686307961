"""Random calls of one key beside what others have, and without: every answer is the same, so that none tells of it."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from memsvc.server.interceptors.authentication import ADMINS
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.access.support import Keyed
from tests.support.descriptors import METHODS
from tests.support.files import upload
from tests.support.rpc import TIMEOUT, Refusal, create, create_all
from tests.support.server_process import Stubs

ROUNDS = 4
"""Calls of each method."""
RANKED = {
    "Search", "BatchSearch", "StreamSearch", "SearchAll", "BuildContext", "RenderContext", "LoadCore",
}  # fmt: skip
"""Methods whose scores depend on how rare a word is among all memories of the user: only their errors are compared."""
CONTENTS = (
    "I live in Lisbon.", "I live in Porto.", "我住在杭州。", "我住在深圳。", "The deploy port is 8080.",
    "The deploy port is 9090.", "Please remember: I prefer dark mode.", "Water the plants every day at 8.",
)  # fmt: skip
FOREIGN = "quaggas"
KEYS, REQUESTS, SESSIONS, NAMES = ("k1", "k2", "notes/1"), ("", "", "r1", "r2"), ("", "s1", "s2"), ("c1", "c2")
IDS = {"id", "ids", "memory_id", "derived_from_ids"}
TEXTS = {
    "key": KEYS, "keys": KEYS, "memory_key": KEYS, "request_id": REQUESTS, "session_id": SESSIONS, "session_ids": SESSIONS,
    "name": NAMES, "checkpoint": NAMES, "content": CONTENTS, "query": CONTENTS, "tags": ("red",), "add_tags": ("red",),
    "project_id": ("web", "web", "secret"), "agent_id": ("", "bot"), "order_by": ("", "create_time"),
}  # fmt: skip
LEFT_OUT = {
    "vector", "media_type", "sha256", "tool_calls", "as_of", "ttl", "expire_time", "size_bytes", "heartbeat_interval",
    "where", "read_mask", "update_mask", "supersedes_id", "superseded_by_id", "metadata",
    "related_ids",
}  # fmt: skip
"""Fields that make most requests invalid. Links into another project of the user exist for CheckIntegrity."""
VOLATILE = {
    "accessCount", "accessTime", "contentHash", "text", "tokenCount", "memoriesPerSecond", "storageBytes", "warnings",
    "pendingChangeCount", "vectorCount", "lexicalCount", "contextCursor", "consistencyToken", "nextPageToken", "cursor",
    "selectionToken", "duration",
}  # fmt: skip
"""Fields of answers that differ between two equal users."""
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|\d{8}T\d{6}\.\d+Z")


@dataclass
class World:
    """A user whose project "web" the key is for.

    Attributes:
        foreign: Ids of others that are there, or ids that nobody has.
        seen: The ids that answers have told, in order.
    """

    user: str
    stubs: Stubs
    foreign: list[str]
    seen: list[str] = field(default_factory=list)

    def answer(self, method: str, requests: Sequence[Any]) -> Any:
        """Return the answer of a call, with the names of ids in their place and without what always differs."""
        try:
            responses = METHODS[method].responses(self.stubs, *requests, timeout=TIMEOUT)
        except grpc.RpcError as error:
            refusal = Refusal.from_error(error)
            return refusal.code, refusal.reason, self._plain(refusal.message), refusal.fields
        told = [self._plain(json_format.MessageToDict(response)) for response in responses]
        assert FOREIGN not in str(told)
        return None if method in RANKED else told

    def _plain(self, told: Any) -> Any:
        if isinstance(told, dict):
            return {name: self._plain(value) for name, value in told.items() if name not in VOLATILE}
        if isinstance(told, list):
            return [self._plain(value) for value in told]
        if isinstance(told, str):
            return TIME.sub("a time", UUID.sub(self._name, told)).replace(self.user, "the user")
        return told

    def _name(self, found: re.Match[str]) -> str:
        if found[0] in self.foreign:
            return f"foreign {self.foreign.index(found[0])}"
        if found[0] not in self.seen:
            self.seen.append(found[0])
        return f"own {self.seen.index(found[0])}"


class Caller:
    """Makes the same random calls in several worlds."""

    def __init__(self, worlds: Sequence[World], seed: int) -> None:
        self.worlds = worlds
        self.chance = random.Random(seed)

    def call(self, method: str) -> list[Any]:
        """Make one call in every world, with requests that differ in the names alone, and return the answers."""
        state = self.chance.getstate()
        answers = []
        for world in self.worlds:
            self.chance.setstate(state)
            answers.append((world, list(self._requests(world, method))))
        return [world.answer(method, requests) for world, requests in answers]

    def _requests(self, world: World, method: str) -> Iterator[Any]:
        described = METHODS[method].descriptor
        if not described.client_streaming:
            yield self._fill(world, METHODS[method].request(), 0)
            return
        for part in described.input_type.fields:
            request = METHODS[method].request()
            if part.message_type is None:
                request.data = b"walrus"
            else:
                self._fill(world, getattr(request, part.name), 0)
            yield request

    def _fill(self, world: World, message: Any, depth: int) -> Any:
        described: Descriptor = message.DESCRIPTOR
        if described.full_name == "memsvc.v1.Scope":
            # One that is part of a memory names no user.
            user = world.user if depth < 2 else ""
            project = self.chance.choice(["web"] * 20 + ["secret"])
            session = self.chance.choice(SESSIONS)
            message.MergeFrom(types_pb.Scope(user_id=user, project_id=project, session_id=session))
            return message
        for one in described.fields:
            wanted = one.name in {
                "scope",
                "user_id",
                "memory",
                "message",
                "content",
                "query",
                "id",
                "search",
                "searches",
            }
            given = self.chance.random() < (0.95 if wanted else 0.6 if depth == 0 and not one.message_type else 0.25)
            is_taken = one.containing_oneof is not None and message.WhichOneof(one.containing_oneof.name)
            if given and not is_taken and one.name not in LEFT_OUT and depth < 4:
                self._set(world, message, one, depth)
        return message

    def _set(self, world: World, message: Any, one: FieldDescriptor, depth: int) -> None:
        inner = one.message_type
        if inner is not None and inner.full_name.startswith("google."):
            return
        if inner is not None:
            held = getattr(message, one.name)
            self._fill(world, held.add() if one.is_repeated else held, depth + 1)
            if not one.is_repeated:
                held.SetInParent()
        elif one.is_repeated:
            getattr(message, one.name).append(self._value(world, one))
        else:
            setattr(message, one.name, self._value(world, one))

    def _value(self, world: World, one: FieldDescriptor) -> Any:
        chance = self.chance
        if one.enum_type is not None:
            return chance.choice(one.enum_type.values[1:] or one.enum_type.values).number
        if one.type == FieldDescriptor.TYPE_STRING:
            if one.name == "user_id":
                return world.user
            if one.name in IDS:
                ids = world.foreign if chance.random() < 0.3 else world.seen[-20:] or world.foreign
                return chance.choice(ids)
            return chance.choice(TEXTS.get(one.name, ("",)))
        if one.type == FieldDescriptor.TYPE_BOOL:
            return chance.random() < 0.5
        return chance.choice((0, 0, 1, 2))


def move_in(stubs: Stubs, user: str, project: str) -> list[str]:
    """Store what others have, under the names that the calls use; return the ids of it."""
    scope = types_pb.Scope(user_id=user, project_id=project)
    memories = [types_pb.Memory(content=f"{content} The {FOREIGN} know.", tags=["red"]) for content in CONTENTS]
    for memory, key in zip(memories, KEYS, strict=False):
        memory.key = key
    ids = [memory.id for memory in create_all(stubs, scope, memories)]
    report = search_pb.UseReport(memory_id=ids[0], outcome=search_pb.USE_OUTCOME_USED)
    stubs.search.ReportUse(search_pb.ReportUseRequest(scope=scope, query=FOREIGN, reports=[report]), timeout=TIMEOUT)
    for name in NAMES:
        stubs.lifecycle.CreateCheckpoint(lifecycle_pb.CreateCheckpointRequest(scope=scope, name=name), timeout=TIMEOUT)
    for session in SESSIONS[1:]:
        talk = types_pb.Scope(user_id=user, project_id=project, session_id=session)
        stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=talk, title=FOREIGN), timeout=TIMEOUT)
        said = [types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=f"{FOREIGN} {line}") for line in CONTENTS]
        stubs.session.AppendMessages(session_pb.AppendMessagesRequest(scope=talk, messages=said), timeout=TIMEOUT)
    ids.append(upload(stubs, scope, b"walrus", name="c1").id)
    return ids


@pytest.mark.parametrize("seed", [1, 2])
def test_what_others_have_changes_no_answer(asking: Keyed, seed: int) -> None:
    """Others: the same user in another project and in another tenant, another user in the same project."""
    alone, beside = str(uuid.uuid4()), str(uuid.uuid4())
    with ExitStack() as stack:
        web, writer, tenant = (stack.enter_context(asking.stubs(name)) for name in ("web", "writer", "other tenant"))
        for user in (alone, beside):
            create(writer, types_pb.Scope(user_id=user), "My favourite colour is blue.", key="k3")
        ids = move_in(writer, beside, "secret")
        ids += move_in(tenant, beside, "web") + move_in(writer, f"{beside}-other", "web")
        known = random.Random(seed).sample(ids, 6)
        caller = Caller([World(alone, web, [str(uuid.uuid4()) for _ in known]), World(beside, web, known)], seed)
        methods = sorted(METHODS.keys() - ADMINS) * ROUNDS
        caller.chance.shuffle(methods)
        for method in methods:
            one, other = caller.call(method)

            assert one == other, method
