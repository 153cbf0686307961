"""Every RPC of the API, as the descriptors have them: a new one that a table of tests lacks makes the tests fail."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor

import memsvc.v1
from tests.support.server_process import Stubs

STUB_NAMES = {
    "MemoryService": "memory",
    "SearchService": "search",
    "SessionService": "session",
    "FileService": "files",
    "LifecycleService": "lifecycle",
    "AdminService": "admin",
}
ENDLESS = {"WatchMemories"}
"""RPCs whose stream has no end of its own."""
END = "The end of what is read of a watch."


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC."""

    descriptor: MethodDescriptor

    @property
    def name(self) -> str:
        """Return its name; no two services have methods of the same name."""
        return self.descriptor.name

    @property
    def request(self) -> type[Any]:
        """Return the class of its requests."""
        return message_factory.GetMessageClass(self.descriptor.input_type)

    def call(self, stubs: Stubs) -> Callable[..., Any]:
        """Return the method of the stub."""
        stub = getattr(stubs, STUB_NAMES[self.descriptor.containing_service.name])
        method: Callable[..., Any] = getattr(stub, self.name)
        return method

    def responses(self, stubs: Stubs, *requests: Any, timeout: float) -> list[Any]:
        """Call it with the requests, one unless it takes a stream, and return all responses."""
        sent = iter(requests) if self.descriptor.client_streaming else requests[0]
        answer = self.call(stubs)(sent, timeout=timeout)
        if self.name in ENDLESS:
            return _beginning(answer, requests[0])
        return list(answer) if self.descriptor.server_streaming else [answer]


def _beginning(answer: Any, request: Any) -> list[Any]:
    """Return the first response of a watch, and with heartbeats every second what comes up to the next one, or to END."""
    told = [next(answer)]
    if request.heartbeat_interval.seconds == 1:
        for response in answer:
            told.append(response)
            if response.HasField("heartbeat") or response.change.memory.content == END:
                break
    answer.cancel()
    return told


def all_methods() -> dict[str, Method]:
    """Return every RPC of every service of the package, by name."""
    return {
        method.name: Method(method)
        for file in _files()
        for service in file.services_by_name.values()
        for method in service.methods
    }


def _files() -> Iterator[FileDescriptor]:
    for module in pkgutil.iter_modules(memsvc.v1.__path__):
        if module.name.endswith("_service_pb2"):
            yield importlib.import_module(f"memsvc.v1.{module.name}").DESCRIPTOR


METHODS = all_methods()
