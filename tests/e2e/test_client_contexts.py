"""The Python client's calls about contexts, on a real server."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pytest

from memsvc.client import Memsvc, MemsvcCallError
from memsvc.v1.search_service_pb2 import BuildContextResponse
from tests.support.server_process import ServerProcess


def text_of(events: Sequence[BuildContextResponse]) -> str:
    """Return the text of a stream."""
    texts = ((one.plan.text, *(item.text for item in one.items.items), one.summary.text) for one in events)
    return "".join(chain.from_iterable(texts))


def test_a_client_builds_renders_and_loads(server: ServerProcess, user: str) -> None:
    """The texts of the stream are the rendered context; a stream is resumed; a start is loaded; words answer first."""
    with Memsvc(server.bound, user_id=user, project_id="web", session_id="s") as client:
        rule = client.create("回答要简短。", layer="CORE").memory
        fact = client.create("The otter sleeps by the river.").memory

        events = list(
            client.build_context(
                "otter river", total_tokens=4_000, locale="zh", sections=["GLOBAL_CORE", "PROJECT_CORE", "LONG_TERM"]
            )
        )
        rest = list(client.build_context(cursor=events[0].cursor))
        rendered = client.render_context(
            "otter river",
            shares={"core": 0.5, "long_term": 0.5},
            total_tokens=4_000,
            locale="zh",
            filters={"kinds": ["FACT"]},
        )
        answers = [answer.WhichOneof("answer") for answer in client.stream_search("otter river", limit=3)]

        assert text_of(events) == rendered.markdown
        assert text_of(events[1:]) == text_of(rest)
        assert {rule.id, fact.id} == {citation.memory_id for citation in rendered.citations}
        assert [rule.id] == [memory.id for memory in client.load_core().core]
        assert answers == ["early", "fused"]
        with pytest.raises(MemsvcCallError) as caught:
            list(client.build_context(cursor="nonsense"))
        assert [violation.field for violation in caught.value.violations] == ["cursor"]
        with pytest.raises(ValueError, match="GLOBAL_CORE"):
            client.render_context(sections=["CORE"])  # type: ignore[list-item]  # no section
