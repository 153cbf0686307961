"""A memory of LlamaIndex whose old messages are found in another session. Usage: example.py [ADDRESS].

No language model is needed; the service must be running.
"""

from __future__ import annotations

import asyncio
import sys
from uuid import uuid4

from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory

from memsvc.client import AsyncMemsvc
from memsvc_llama_index import MemsvcMemoryBlock


async def main(address: str) -> None:
    """Say more than the chat history holds, and ask in another session."""
    async with AsyncMemsvc(address, user_id=f"user-{uuid4()}", project_id="llama-index") as client:
        for session_id, texts in (
            ("1", ["My dog is called Rex.", *(f"The weather of day {day} was fine." for day in range(40))]),
            ("2", ["What is my dog called?"]),
        ):
            memory = Memory.from_defaults(
                session_id=session_id,
                token_limit=300,
                token_flush_size=50,
                tokenizer_fn=str.split,
                memory_blocks=[MemsvcMemoryBlock(client=client, priority=1)],
            )
            for text in texts:
                await memory.aput(ChatMessage(role="user", content=text))
            messages = await memory.aget()
            print(f"Session {session_id}: {messages[0].content}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or ["127.0.0.1:50051"]))
