"""An agent of the OpenAI Agents SDK that continues a conversation. Usage: example.py [ADDRESS].

The SDK's scripted model takes the place of a language model, so it runs offline; the service must be running.
"""

from __future__ import annotations

import asyncio
import sys
from uuid import uuid4

from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message

from memsvc.client import AsyncMemsvc
from memsvc_openai_agents import MemsvcSession


async def main(address: str) -> None:
    """Run the agent twice in one session, as after a restart."""
    model = ScriptedModel([[assistant_message("Nice to meet you, Ann.")], [assistant_message("You are Ann.")]])
    agent = Agent(name="Assistant", instructions="Answer briefly.", model=model)
    offline = RunConfig(tracing_disabled=True)
    session_id = f"chat-{uuid4()}"
    async with AsyncMemsvc(address, user_id="example", project_id="openai-agents") as client:
        first = await Runner.run(agent, "I am Ann.", session=MemsvcSession(session_id, client), run_config=offline)
        print(first.final_output)
    async with AsyncMemsvc(address, user_id="example", project_id="openai-agents") as client:
        session = MemsvcSession(session_id, client)
        print(f"{len(await session.get_items())} items before the second run")
        second = await Runner.run(agent, "Who am I?", session=session, run_config=offline)
        print(second.final_output)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or ["127.0.0.1:50051"]))
