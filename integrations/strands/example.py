"""An agent of Strands that knows what an earlier agent stored. Usage: example.py [ADDRESS].

A scripted model takes the place of a language model, so it runs offline; the service must be running.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

from strands import Agent
from strands.memory import MemoryManager
from strands.models import Model

from memsvc.client import Memsvc
from memsvc_strands import MemsvcMemoryStore


class ScriptedModel(Model):
    """A model that says whether its messages mention the dog's name."""

    def update_config(self, **model_config: Any) -> None:
        """Ignore the configuration."""

    def get_config(self) -> dict[str, Any]:
        """Return no configuration."""
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse structured output."""
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield one answer."""
        del args, kwargs
        text = "Your dog is Rex." if "Rex" in str(messages) else "I do not know your dog."
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": text}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def main(address: str) -> None:
    """Store a statement, and ask a new agent for it."""
    with Memsvc(address, user_id=f"user-{uuid4()}", project_id="strands") as client:
        store = MemsvcMemoryStore(client)
        for number in (1, 2):
            agent = Agent(model=ScriptedModel(), memory_manager=MemoryManager(stores=[store]), callback_handler=None)
            print(f"{number}: {agent('What is my dog called?')}".strip())
            asyncio.run(store.add("The user's dog is called Rex."))


if __name__ == "__main__":
    main(*sys.argv[1:] or ["127.0.0.1:50051"])
