"""memsvc in the benchmark harnesses of others: their interfaces, as they are published, around a live server."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.packages.language_builds import BUILD_SECONDS, Build
from tests.packages.test_readmes import output_of
from tests.support.forked_process import ROOT
from tests.support.server_process import ServerProcess

HARNESSES = ROOT / "tests" / "bench" / "harnesses"
PROVIDER = """
import asyncio
from abc import ABC, abstractmethod


class MemoryProvider(ABC):
    concurrency = 4

    def initialize(self): ...
    def cleanup(self): ...
    def prepare(self, store_dir, unit_ids=None): ...

    @abstractmethod
    def ingest(self, documents): ...

    async def async_ingest(self, documents):
        return await asyncio.to_thread(self.ingest, documents)

    @abstractmethod
    def retrieve(self, query, k=10, user_id=None, query_timestamp=None): ...
"""
MODELS = """
from dataclasses import dataclass


@dataclass
class Document:
    id: str
    content: str
    user_id: str | None = None
    messages: list[dict] | None = None
    timestamp: str | None = None
    context: str | None = None
"""
TYPES = {
    "unified.ts": """
export interface UnifiedMessage { role: "user" | "assistant"; content: string; timestamp?: string; speaker?: string }
export interface UnifiedSession { sessionId: string; messages: UnifiedMessage[]; metadata?: Record<string, unknown> }
""",
    "provider.ts": """
import type { UnifiedSession } from "./unified"
export interface ProviderConfig { apiKey: string; baseUrl?: string; [key: string]: unknown }
export interface IngestOptions { containerTag: string; metadata?: Record<string, unknown> }
export interface SearchOptions { containerTag: string; limit?: number; threshold?: number }
export interface IngestResult { documentIds: string[]; taskIds?: string[] }
export interface Provider {
    name: string
    initialize(config: ProviderConfig): Promise<void>
    ingest(sessions: UnifiedSession[], options: IngestOptions): Promise<IngestResult>
    awaitIndexing(result: IngestResult, containerTag: string): Promise<void>
    search(query: string, options: SearchOptions): Promise<unknown[]>
    clear(containerTag: string): Promise<void>
}
""",
}
RUN = """
import { MemsvcProvider } from "./providers/memsvc/index.js";
const provider = new MemsvcProvider();
await provider.initialize({ apiKey: "", baseUrl: process.argv[2]! });
const told = [
  { role: "user", content: "I adopted a greyhound called Pixel." },
  { role: "assistant", content: "我记住了：你对花生过敏。" },
  { role: "user", content: " " },
] as const;
const options = { containerTag: "question-1" };
const metadata = { date: "2023-05-20T02:21:00Z" };
const stored = await provider.ingest([{ sessionId: "s1", messages: [...told], metadata }], options);
await provider.awaitIndexing(stored, options.containerTag);
const [english] = await provider.search("What is my dog called?", { ...options, limit: 200 }) as any[];
const [chinese] = await provider.search("我对什么过敏？", options) as any[];
const strangers = await provider.search("dog", { containerTag: "question-2" });
await provider.clear(options.containerTag);
const left = await provider.search("dog", options);
console.log(JSON.stringify({ stored: stored.documentIds.length, english, chinese, strangers, left }));
process.exit(0);
"""

pytestmark = pytest.mark.timeout(BUILD_SECONDS + 300)


@pytest.fixture
def provider(server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The provider in Python, with the interface of agent-memory-benchmark (commit de83fa7)."""
    package = tmp_path / "memory_bench"
    (package / "memory").mkdir(parents=True)
    (package / "memory" / "base.py").write_text(PROVIDER)
    (package / "models.py").write_text(MODELS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MEMSVC_ADDRESS", server.bound)
    spec = importlib.util.spec_from_file_location("harness", HARNESSES / "agent_memory_benchmark.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.MemsvcMemoryProvider()
    made.initialize()
    made.prepare(tmp_path)
    yield made
    made.cleanup()
    for name in [one for one in sys.modules if one.partition(".")[0] == "memory_bench"]:
        del sys.modules[name]


def test_the_provider_in_python(provider: Any) -> None:
    """Turns of every form are found by their users alone; what is given back is the document that has them."""
    document = sys.modules["memory_bench.models"].Document
    turns = [
        {"speaker": "Ann", "text": "Look!", "blip_caption": "a greyhound in the snow"},
        {"speaker": "Bo", "text": ""},
    ]
    provider.ingest(
        [
            document("d1", json.dumps(turns), user_id="ann", timestamp="2023-05-20T02:21:00+00:00"),
            document("d2", "", user_id="ann", messages=[{"role": "user", "content": "我对花生过敏。"}]),
            document("d3", "The walrus sleeps.", timestamp="last year"),
        ]
    )

    [english, *_], raw = provider.retrieve("Which dog did Ann see?", k=200, user_id="ann")
    assert ("d1", "2023-05-20T02:21:00+00:00") == (english.id, english.timestamp)
    assert "[2023-05-20T02:21:00+00:00] Ann: Look! [image: a greyhound in the snow]" == english.content
    assert "d1" == raw["results"][0]["id"]
    assert ["d2", "user: 我对花生过敏。"] == [(one := provider.retrieve("花生", user_id="ann")[0][0]).id, one.content]
    assert ["d3"] == [one.id for one in provider.retrieve("walrus")[0]]


@pytest.mark.xdist_group("package in typescript")
def test_the_provider_in_typescript(build_of: Callable[[str], Build], server: ServerProcess, tmp_path: Path) -> None:
    """It compiles in strict mode with the interface of memorybench (commit 25729a7), and does what that says."""
    package = build_of("typescript").package
    files = {
        "package.json": '{"type": "module"}',
        "types/unified.ts": TYPES["unified.ts"],
        "types/provider.ts": TYPES["provider.ts"],
        "providers/memsvc/index.ts": (HARNESSES / "memorybench.ts").read_text(encoding="utf-8"),
        "run.ts": RUN,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "memsvc").symlink_to(package)
    options = "--strict --target es2022 --module esnext --moduleResolution bundler --skipLibCheck --types node"
    roots = f"--typeRoots {package / 'node_modules' / '@types'}"
    output_of([str(package / "node_modules" / ".bin" / "tsc"), *options.split(), *roots.split(), "run.ts"], tmp_path)

    done = json.loads(output_of(["node", "run.js", server.url], tmp_path))

    assert 2 == done["stored"]
    assert {
        "content": "I adopted a greyhound called Pixel.", "sessionId": "s1", "speaker": "user",
        "date": "2023-05-20T02:21:00Z",
    }.items() <= done["english"].items()  # fmt: skip
    assert "我记住了：你对花生过敏。" == done["chinese"]["content"]
    assert [] == done["strangers"] == done["left"]
