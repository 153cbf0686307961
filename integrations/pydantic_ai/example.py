"""An agent of Pydantic AI that remembers across runs. Usage: example.py [ADDRESS].

A scripted model takes the place of a language model, so it runs offline; the service must be running.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from uuid import uuid4

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from memsvc.client import AsyncMemsvc
from memsvc_pydantic_ai import known_instructions, memory_toolset


@dataclass
class Deps:
    """The dependencies of a run."""

    memory: AsyncMemsvc


def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Store what is said, and answer from the instructions."""
    if len(messages) == 1 and "Rex" not in (info.instructions or ""):
        return ModelResponse(parts=[ToolCallPart("remember", {"statement": "The user's dog is called Rex."})])
    known = "Your dog is Rex." if len(messages) == 1 else "I will remember that."
    return ModelResponse(parts=[TextPart(known)])


async def main(address: str) -> None:
    """Say something in one run, and ask for it in another."""
    agent = Agent(
        FunctionModel(script),
        deps_type=Deps,
        toolsets=[memory_toolset(lambda deps: deps.memory)],
        instructions=known_instructions(lambda deps: deps.memory),
    )
    async with AsyncMemsvc(address, user_id=f"user-{uuid4()}", project_id="pydantic-ai") as memory:
        for prompt in ("My dog is called Rex.", "What is my dog called?"):
            result = await agent.run(prompt, deps=Deps(memory))
            print(f"{prompt} -> {result.output}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or ["127.0.0.1:50051"]))
