"""Tools and instructions of an agent of Pydantic AI."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from memsvc.client import AsyncMemsvc, MemsvcCallError
from memsvc_pydantic_ai import known_instructions, memory_toolset
from tests.integrations.example_runs import run_example
from tests.support.server_process import ServerProcess


class Script:
    """A model that makes one call of a tool, and keeps what it was sent."""

    def __init__(self, tool: str, **arguments: Any) -> None:
        self.call = ToolCallPart(tool, arguments)
        self.messages: list[ModelMessage] = []
        self.info: AgentInfo | None = None

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.messages, self.info = list(messages), info
        return ModelResponse(parts=[self.call if len(messages) == 1 else TextPart("done")])

    @property
    def returned(self) -> Any:
        """What the tool returned to the model."""
        return self.messages[-1].parts[0]


def call(address: str, user: str, tool: str, **arguments: Any) -> Any:
    """Run an agent that calls a tool; return the part that the model gets."""

    async def run() -> Any:
        script = Script(tool, **arguments)
        agent = Agent(FunctionModel(script), deps_type=AsyncMemsvc, toolsets=[memory_toolset(lambda deps: deps)])
        async with AsyncMemsvc(address, user_id=user) as client:
            await agent.run("Go on.", deps=client)
        return script.returned

    return asyncio.run(run())


def test_an_agent_remembers_recalls_and_forgets(server: ServerProcess, user: str) -> None:
    """Across runs, and for its own user only."""
    stored = call(server.bound, user, "remember", statement="The user prefers tea.", kind="PREFERENCE")
    assert isinstance(stored, ToolReturnPart)
    [found] = call(server.bound, user, "recall", query="tea or coffee?", limit=100).content
    assert found["statement"] == "The user prefers tea."
    assert found["id"] in stored.content
    assert call(server.bound, f"{user}-2", "recall", query="tea or coffee?").content == []

    assert call(server.bound, user, "forget", memory_id=found["id"]).content == "Deleted."
    assert call(server.bound, user, "forget", memory_id=found["id"]).content == "There is no such memory."
    assert call(server.bound, user, "recall", query="tea or coffee?").content == []


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        ("I live in Hamburg. My cat is called Mia.", "I live in Berlin now.", "Where do I live?"),
        ("我住在北京。我的猫叫米亚。", "我现在住在上海。", "我住在哪里？"),
    ],
    ids=["English", "Chinese"],
)
def test_what_is_not_current_says_so(server: ServerProcess, user: str, old: str, new: str, question: str) -> None:
    """With the id of the newer memory."""
    call(server.bound, user, "remember", statement=old)
    call(server.bound, user, "remember", statement=new)
    found = {one["statement"]: one for one in call(server.bound, user, "recall", query=question).content}
    assert found[old]["currency"] in {"conflicted", "outdated"}
    assert found[old]["newer_id"] == found[new]["id"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("remember", {"statement": ""}), ("forget", {"memory_id": "no id"}), ("recall", {"query": "x" * 9_000})],
)
def test_the_model_corrects_invalid_calls(
    server: ServerProcess, user: str, tool: str, arguments: dict[str, str]
) -> None:
    """The message of the service is returned to it."""
    returned = call(server.bound, user, tool, **arguments)

    assert "INVALID_REQUEST" in str(returned.content)


def test_other_failures_are_raised(user: str) -> None:
    """A service that cannot be reached is no matter of the model."""
    with pytest.raises(MemsvcCallError):
        call("127.0.0.1:1", user, "recall", query="tea")


def test_instructions_hold_what_fits_the_prompt(server: ServerProcess, user: str) -> None:
    """They are rendered for each run."""

    async def run() -> str:
        script = Script("recall", query="tea")
        agent = Agent(
            FunctionModel(script),
            deps_type=AsyncMemsvc,
            toolsets=[memory_toolset(lambda deps: deps)],
            instructions=known_instructions(lambda deps: deps),
        )
        async with AsyncMemsvc(server.bound, user_id=user) as client:
            await client.create("The user prefers tea.")
            await agent.run("What does the user drink?", deps=client)
        assert script.info is not None
        return script.info.instructions or ""

    assert "The user prefers tea." in asyncio.run(run())


def test_the_example_remembers_an_earlier_run(server: ServerProcess) -> None:
    """The second run is answered from the instructions."""
    assert "What is my dog called? -> Your dog is Rex." in run_example("pydantic_ai", server)
