"""Arguments of the wrong type: errors name the argument and the type, with both faces of the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from memsvc.client import AsyncMemsvc, Memsvc

ADDRESS = "127.0.0.1:1"
"""Nothing answers there: the arguments are refused before."""
WRONG: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda memsvc: memsvc.create(123), TypeError, "content must be str, not int."),
    (lambda memsvc: memsvc.create("喝茶", tags=["茶", 1]), TypeError, "tags[1] must be str, not int."),
    (lambda memsvc: memsvc.create("喝茶", tags="茶"), TypeError, "tags must be "),
    (lambda memsvc: memsvc.search("x", filters={"tags_any": "茶"}), TypeError, "tags_any must be a list, not str."),
    (lambda memsvc: memsvc.create("x", event_time="yesterday"), TypeError, "event_time must be datetime"),
    (lambda memsvc: memsvc.create("x", importance="high"), TypeError, "importance must be int, not str."),
    (lambda memsvc: memsvc.create("x", layer=3), TypeError, "layer must be one of 'CORE', 'SESSION', "),
    (lambda memsvc: memsvc.create("\ud800"), ValueError, "content must be valid Unicode"),
    (lambda memsvc: memsvc.search("x", limit=0.5), TypeError, "limit must be int, not float."),
    (lambda memsvc: memsvc.search("x", limit=10**12), ValueError, "limit is out of the range of its field"),
    (lambda memsvc: memsvc.search(5), TypeError, "query must be str, not int."),
    (
        lambda memsvc: memsvc.search("x", filters={"tags_any": [7]}),
        TypeError,
        "filters.tags_any[0] must be str, not int.",
    ),
    (lambda memsvc: memsvc.render_context("x", total_tokens="many"), TypeError, "total_tokens must be int, not str."),
    (lambda memsvc: memsvc.list(page_size="all"), TypeError, "page_size must be int, not str."),
    (lambda memsvc: memsvc.create("x", layer="HIGH"), ValueError, "layer: 'HIGH' is none of CORE, "),
]


@pytest.mark.parametrize(("call", "kind", "message"), WRONG)
def test_a_wrong_argument_is_named(call: Callable[[Any], Any], kind: type[Exception], message: str) -> None:
    """By the asynchronous client and by the other one, in calls and in streams."""

    async def run() -> None:
        async with AsyncMemsvc(ADDRESS, user_id="ada", timeout=1) as memsvc:
            made = call(memsvc)
            if isinstance(made, AsyncGenerator):
                await anext(made)
            else:
                await made

    with pytest.raises(kind) as refused:
        asyncio.run(run())
    assert str(refused.value).startswith(message)
    with Memsvc(ADDRESS, user_id="ada", timeout=1) as memsvc, pytest.raises(kind) as again:
        made = call(memsvc)
        next(made)
    assert str(again.value) == str(refused.value)


@pytest.mark.parametrize("client", [AsyncMemsvc, Memsvc])
def test_the_arguments_of_a_client_are_named(client: type[Any]) -> None:
    with pytest.raises(TypeError, match=r"^user_id must be str, not int\.$"):
        client(ADDRESS, user_id=5)


def test_a_missing_argument_is_named_by_python() -> None:
    with Memsvc(ADDRESS, user_id="ada") as memsvc, pytest.raises(TypeError, match="content"):
        memsvc.create()  # type: ignore[call-arg]
