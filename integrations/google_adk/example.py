"""An agent of the Agent Development Kit that remembers an earlier session. Usage: example.py [ADDRESS].

A scripted model takes the place of a language model, so it runs offline; the service must be running.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from uuid import uuid4

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.preload_memory_tool import preload_memory_tool
from google.genai import types

from memsvc_google_adk import MemsvcMemoryService

APP = "example-app"


class EchoingModel(BaseLlm):
    """A model that says whether its request mentions the dog's name."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002, ARG002 - the interface of models
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield one answer."""
        seen = str(llm_request.contents)
        text = "Your dog is Rex." if "Rex" in seen else "I do not know your dog."
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


async def main(address: str) -> None:
    """Say something in one session, and ask for it in another."""
    sessions = InMemorySessionService()
    agent = LlmAgent(name="assistant", model=EchoingModel(model="scripted"), tools=[preload_memory_tool])
    user = f"user-{uuid4()}"
    with MemsvcMemoryService(address) as memory:
        runner = Runner(app_name=APP, agent=agent, session_service=sessions, memory_service=memory)
        for session_id, text in (
            ("1", "What is my dog called?"),
            ("2", "My dog is Rex."),
            ("3", "What is my dog called?"),
        ):
            await sessions.create_session(app_name=APP, user_id=user, session_id=session_id)
            message = types.Content(role="user", parts=[types.Part(text=text)])
            async for event in runner.run_async(user_id=user, session_id=session_id, new_message=message):
                if event.is_final_response() and event.content and event.content.parts:
                    print(f"{session_id}: {event.content.parts[0].text}")
            finished = await sessions.get_session(app_name=APP, user_id=user, session_id=session_id)
            if finished is not None:
                await memory.add_session_to_memory(finished)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or ["127.0.0.1:50051"]))
