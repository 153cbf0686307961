"""The same calls to several services, whose answers must be equal but for ids, tokens and scores."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from tests.support.rpc import TIMEOUT, Refusal
from tests.support.server_process import Stubs

Method: TypeAlias = Callable[[Stubs], Callable[..., Any]]
Key: TypeAlias = Callable[[list[dict[str, Any]]], Any]

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_ID_BYTES = re.compile(_ID.pattern.encode())
_BREAK = re.compile(r"(?<=[,{\[]) ?(?=['{])")
_VECTOR = re.compile(r"(?m)^ *vector: .*\n")
_TOKENS = frozenset({"consistency_token", "cursor", "context_cursor", "next_page_token", "selection_token"})
_VOLATILE = frozenset(
    {
        "access_count", "access_time", "boosts", "duration", "fused_score", "memories_per_second", "normalized_score",
        "raw_score", "records_per_second", "relevance", "score", "share", "similarity", "timings",
    }
)  # fmt: skip
"""Fields that are written late, measured, or computed by an index in its own way."""


class Twins:
    """Services that are asked the same; the others are compared with the first.

    Attributes:
        ids: The ids that the first service gave, in the order in which they were seen.
        scopes: The scope of each memory of the first service, as a dictionary.
    """

    def __init__(self, services: Sequence[Stubs]) -> None:
        self.services = services
        self.ids: list[str] = []
        self.scopes: dict[str, dict[str, str]] = {}
        self._others: list[dict[str, str]] = [{} for _ in services]
        self._firsts: list[dict[str, str]] = [{} for _ in services]

    def call(self, method: Method, request: Message | Sequence[Message], key: Key | None = None) -> Any:
        """Make a call, unary or streaming, everywhere; return the answers of the first service, or its refusal.

        With a *key* what it makes of the answers is compared, instead of the answers.
        """
        first: list[Any] | Refusal = []
        expected = ""
        for number, stubs in enumerate(self.services):
            answer = _answer(method(stubs), self._translated(number, request))
            told = _refusal_text(answer) if isinstance(answer, Refusal) else [_plain(_as_dict(one)) for one in answer]
            shown = repr(key(told) if key is not None and isinstance(told, list) else told)
            if number == 0:
                first, expected = answer, shown
                self._learn(told, shown)
            else:
                self._compare(number, expected, shown, request)
        return first

    def pages(self, method: Method, request: Any, key: Key | None = None) -> Any:
        """Read a list page by page everywhere; return the pages of the first service, or its refusal."""

        def read(stubs: Stubs) -> Callable[..., Iterator[Any]]:
            def call(asked: Any, timeout: float) -> Iterator[Any]:
                while True:
                    page = method(stubs)(asked, timeout=timeout)
                    yield page
                    asked.page_token = page.next_page_token
                    if not asked.page_token:
                        return

            return call

        return self.call(read, request, key)

    def previewed(self, method: Method, request: Any) -> Any:
        """Preview a change of what a filter selects, and make it; the previews and the summaries must be equal."""

        def both(stubs: Stubs) -> Callable[..., Iterator[Any]]:
            def call(asked: Any, timeout: float) -> Iterator[Any]:
                asked.dry_run = True
                [preview] = method(stubs)(asked, timeout=timeout)
                yield preview
                asked.dry_run, asked.selection_token = False, preview.preview.selection_token
                yield from method(stubs)(asked, timeout=timeout)

            return call

        return self.call(both, request, lambda told: [told[0], told[-1]])

    def _translated(self, number: int, request: Message | Sequence[Message]) -> Any:
        """Return a copy of a request with the ids of a service."""
        if not isinstance(request, Message):
            return iter([self._translated(number, one) for one in request])
        known = self._others[number]

        def other(found: re.Match[bytes]) -> bytes:
            return known.get(found[0].decode(), found[0].decode()).encode()

        return type(request).FromString(_ID_BYTES.sub(other, request.SerializeToString()))

    def _learn(self, told: Any, shown: str) -> None:
        """Take in the scopes of an answer, and the ids in what is compared of it: the others have learned those too."""
        for one in _ID.findall(shown):
            if one not in self._others[0]:
                self._others[0][one] = one
                self.ids.append(one)
        for memory in _memories_in(told):
            self.scopes[memory["id"]] = memory.get("scope", {})

    def _compare(self, number: int, expected: str, actual: str, request: Message | Sequence[Message]) -> None:
        """Require that two answers are equal but for ids, each of which stands for one of the first service."""
        asked = _VECTOR.sub("", f"{type(request).__name__}: {request}")
        one, other = _ID.sub("…", expected), _ID.sub("…", actual)
        differing = difflib.ndiff(_BREAK.sub("\n", one).split("\n"), _BREAK.sub("\n", other).split("\n"))
        assert one == other, "\n".join([asked, *(line for line in differing if line[0] in "+-")])
        for here, there in zip(_ID.findall(expected), _ID.findall(actual), strict=True):
            assert self._others[number].setdefault(here, there) == there, (asked, expected, actual)
            assert self._firsts[number].setdefault(there, here) == here, (asked, expected, actual)


def without_ids(field: str) -> Key:
    """Return a key for lists of which several members have the same place: all members, sorted without their ids."""
    return lambda told: sorted(_ID.sub("", repr(one)) for page in told for one in page.get(field, []))


def _memories_in(told: Any) -> Iterator[dict[str, Any]]:
    if isinstance(told, dict):
        if "content" in told and "id" in told:
            yield told
        told = list(told.values())
    for one in told if isinstance(told, list) else ():
        yield from _memories_in(one)


def _answer(call: Callable[..., Any], request: Any) -> list[Any] | Refusal:
    try:
        answer = call(request, timeout=TIMEOUT)
        return [answer] if isinstance(answer, Message) else list(answer)
    except grpc.RpcError as error:
        return Refusal.from_error(error)


def _refusal_text(refusal: Refusal) -> str:
    metadata = sorted((name, value) for name, value in refusal.metadata.items() if name != "request_id")
    return f"{refusal.code} {refusal.reason} {refusal.message} {metadata} {refusal.fields}"


def _as_dict(message: Message) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True)


def _plain(value: Any) -> Any:
    """Return an answer without what differs from service to service; a token says no more than that it is there."""
    if isinstance(value, dict):
        return {
            name: "…" if name in _TOKENS else _plain(one)
            for name, one in sorted(value.items())
            if name not in _VOLATILE
        }
    return [_plain(one) for one in value] if isinstance(value, list) else value
