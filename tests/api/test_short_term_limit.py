"""The number of short-term memories has a limit, above which contexts and GetStats warn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_contexts import render
from tests.support.rpc import TIMEOUT, create, create_all
from tests.support.server_process import Stubs
from tests.support.server_thread import served

CODE = types_pb.WARNING_CODE_SHORT_TERM_COUNT
SHORT = types_pb.MEMORY_LAYER_SHORT_TERM


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A service with a limit of ten."""
    with served(tmp_path_factory.mktemp("limit") / "data", context={"short_term_limit": 10}) as opened:
        yield opened


@pytest.mark.parametrize(
    ("locale", "said"),
    [
        ("en", "The project has 11 short-term memories; the limit is 10."),
        ("zh", "该项目有 11 条短期记忆，上限 10 条。"),
    ],
)
def test_too_many_short_term_memories_are_warned_of(stubs: Stubs, user: str, locale: str, said: str) -> None:
    """Near the limit as a note; of the project alone: neither other projects nor other layers count."""
    scope, other = (types_pb.Scope(user_id=user, project_id=name) for name in ("p", "q"))

    def warned(place: types_pb.Scope) -> list[tuple[int, str]]:
        options = search_pb.ContextOptions(locale=locale)
        context = render(stubs, place, query="otter", options=options).warnings
        stats = stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=place), timeout=TIMEOUT).warnings
        found = [(one.severity, one.message) for one in context if one.code == CODE]
        assert [severity for severity, _ in found] == [one.severity for one in stats if one.code == CODE]
        return found

    create_all(stubs, scope, [types_pb.Memory(content=f"Otter {number}. 水獭", layer=SHORT) for number in range(8)])
    create_all(stubs, scope, [types_pb.Memory(content=f"Heron {number}. 苍鹭") for number in range(9)])
    assert warned(scope) == []
    create(stubs, scope, "The ninth otter.", layer=SHORT)
    assert [severity for severity, _ in warned(scope)] == [types_pb.SEVERITY_INFO]
    create_all(stubs, scope, [types_pb.Memory(content=f"Newt {number}. 蝾螈", layer=SHORT) for number in range(2)])
    assert warned(scope) == [(types_pb.SEVERITY_WARNING, said)]
    assert warned(other) == []
