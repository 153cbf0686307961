"""A crew that knows what an earlier crew stored. Usage: example.py [ADDRESS].

A scripted model takes the place of a language model, so it runs offline; the service must be running.
"""

from __future__ import annotations

import os
import sys
from typing import Any
from uuid import uuid4

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")
os.environ.setdefault("OTEL_SDK_DISABLED", "true")

from crewai import Agent, BaseLLM, Crew, Memory, Task

from memsvc.client import Memsvc
from memsvc_crewai import MemsvcStorage


class ScriptedModel(BaseLLM):
    """A model that says whether its messages mention the dog's name."""

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        """Return one answer."""
        del args, kwargs
        known = "Your dog is Rex." if "Rex" in str(messages) else "I do not know your dog."
        return f"Thought: I now can give a great answer\nFinal Answer: {known}"


def main(address: str) -> None:
    """Ask a crew, store a statement, and ask a new crew."""
    model = ScriptedModel(model="scripted")
    with Memsvc(address, user_id=f"user-{uuid4()}", project_id="crewai") as client:
        storage = MemsvcStorage(client)
        memory = Memory(storage=storage, embedder=storage.embed, llm=model, read_only=True)
        for number in (1, 2):
            agent = Agent(role="Assistant", goal="Help the user.", backstory="You help.", llm=model)
            task = Task(description="What is my dog called?", expected_output="The name.", agent=agent)
            print(f"{number}: {Crew(agents=[agent], tasks=[task], memory=memory, tracing=False).kickoff()}")
            writer = Memory(storage=storage, embedder=storage.embed, llm=model)
            writer.remember(
                "The user's dog is called Rex.", scope="/user", categories=["pets"], metadata={}, importance=0.5
            )
            writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:] or ["127.0.0.1:50051"])
