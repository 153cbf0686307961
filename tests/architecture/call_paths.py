"""Count of the source files that one call runs through: `python -m tests.architecture.call_paths [--list]`.

A real service with default settings serves in this process. A profile function in every thread notes the file of each
Python function that is entered while the call is under way; generated code, the client and what background tasks do
when no call is made are left out.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

INDEXER_THREAD = "indexer"
ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (str(ROOT / "memsvc"), str(ROOT / "backends"))
LEFT_OUT = tuple(str(ROOT / "memsvc" / part) for part in ("v1", "client", "cli"))


class Trace:
    """The files whose functions are entered while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.files: set[str] = set()
        self.left_out_threads: frozenset[str] = frozenset()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note the file of a function that is entered."""
        if self.on and event == "call" and threading.current_thread().name not in self.left_out_threads:
            self.files.add(frame.f_code.co_filename)

    def own(self) -> set[str]:
        """Return the hand-written files among them, below the root."""
        return {
            str(Path(name).relative_to(ROOT))
            for name in self.files
            if name.startswith(FOLDERS) and not name.startswith(LEFT_OUT)
        }


def measure() -> dict[str, list[str]]:
    """Return the files that one CreateMemory and one Search run through."""
    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    # Imported here, so that every thread they start is traced.
    import grpc  # noqa: PLC0415

    from memsvc.bootstrap.app import running  # noqa: PLC0415
    from memsvc.server.options import ServerOptions  # noqa: PLC0415
    from memsvc.server.server import build  # noqa: PLC0415
    from memsvc.settings import load_settings  # noqa: PLC0415
    from memsvc.v1 import memory_service_pb2 as memory_pb  # noqa: PLC0415
    from memsvc.v1 import memory_service_pb2_grpc, search_service_pb2_grpc  # noqa: PLC0415
    from memsvc.v1 import search_service_pb2 as search_pb  # noqa: PLC0415
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415

    scope = types_pb.Scope(user_id="u")

    async def serve(directory: str) -> dict[str, list[str]]:
        settings = load_settings(data_dir=Path(directory))
        with running(settings) as services:
            server = build(services, ServerOptions(addresses=("127.0.0.1:0",)))
            await server.start()
            async with grpc.aio.insecure_channel(server.addresses[0]) as channel:
                memories = memory_service_pb2_grpc.MemoryServiceStub(channel)
                searches = search_service_pb2_grpc.SearchServiceStub(channel)

                async def create(text: str) -> None:
                    memory = types_pb.Memory(content=text)
                    await memories.CreateMemory(memory_pb.CreateMemoryRequest(scope=scope, memory=memory))

                async def search(text: str) -> None:
                    found = await searches.Search(search_pb.SearchRequest(scope=scope, query=text))
                    assert found.hits

                async def traced(call: Any, text: str) -> set[str]:
                    # After this call the index maintenance that earlier calls caused is over.
                    await create(f"The garden hose is green. {text}")
                    trace.files.clear()
                    trace.on = True
                    await call(text)
                    trace.on = False
                    return trace.own()

                async def path_of(call: Any, *texts: str) -> list[str]:
                    # What a background task does during one of the calls is no part of the others.
                    return sorted(set[str].intersection(*[await traced(call, text) for text in texts]))

                for text in ("The spare key hangs in the shed.", "Anna moved to Basel in May."):
                    await create(text)
                    await search(text)
                stored = [f"The old {thing} stands in the cellar." for thing in ("bicycle", "piano", "ladder")]
                result = {"CreateMemory": await path_of(create, *stored)}
                # The indexer may still be marking the change before the search as applied.
                trace.left_out_threads = frozenset({INDEXER_THREAD})
                asked = ("Where is the bicycle?", "What stands in the cellar?", "Where is the old one?")
                result["Search"] = await path_of(search, *asked)
            await server.stop()
        return result

    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(serve(directory))


if __name__ == "__main__":
    counted = measure()
    if "--json" in sys.argv:
        print(json.dumps(counted))  # noqa: T201
    else:
        for method, files in counted.items():
            print(f"{method}: {len(files)} files")  # noqa: T201
            if "--list" in sys.argv:
                print("\n".join(f"  {name}" for name in files))  # noqa: T201
