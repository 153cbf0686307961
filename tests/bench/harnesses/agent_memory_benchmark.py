"""memsvc as a provider of vectorize-io/agent-memory-benchmark: see "Harnesses of others" in ../README.md.

A document becomes one memory for each of its turns, or one memory if it has none. The memories of a user are searched
as a service does by default; a hit is given back as its turn with the ones beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

# Modules of the harness.
from memory_bench.memory.base import MemoryProvider
from memory_bench.models import Document

from memsvc.client import DEFAULT_ADDRESS, Draft, Memsvc

BATCH = 500
ANYONE = "anyone"
"""The user of documents that are nobody's."""


class MemsvcMemoryProvider(MemoryProvider):  # type: ignore[misc, unused-ignore]  # the harness is not installed here
    """A service at MEMSVC_ADDRESS, by default on this machine; each run has a project of its own."""

    name = "memsvc"
    description = "Hybrid search of every turn with late interaction; no language model."
    kind = "local"

    def __init__(self) -> None:
        self._project = f"benchmark-{uuid4()}"
        self._clients: dict[str, Memsvc] = {}

    def prepare(self, store_dir: Path, unit_ids: set[str] | None = None) -> None:
        """Do nothing: the service stores."""

    def cleanup(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def ingest(self, documents: list[Document]) -> None:
        """Store documents, and return when they can be searched."""
        for user in dict.fromkeys(one.user_id or ANYONE for one in documents):
            drafts = (draft for one in documents if (one.user_id or ANYONE) == user for draft in _drafts(one))
            while batch := list(islice(drafts, BATCH)):
                stored = self._client(user).create_many(batch, timeout=600)
                if failed := [one.status.message for one in stored.results if one.status.code]:
                    message = f"{len(failed)} memories were refused, the first one for: {failed[0]}"
                    raise RuntimeError(message)

    def retrieve(
        self, query: str, k: int = 10, user_id: str | None = None, query_timestamp: str | None = None
    ) -> tuple[list[Document], dict[str, Any] | None]:
        """Return the best turns, and all hits as they are."""
        found = self._client(user_id or ANYONE).search(query, limit=min(k, 100))
        documents = []
        for hit in found.hits:
            memory = hit.memory
            at = memory.event_time.ToDatetime(UTC).isoformat() if memory.HasField("event_time") else None
            said = f"{memory.speaker}: {memory.content}" if memory.speaker else memory.content
            content = f"[{at}] {said}" if at else said
            documents.append(Document(id=memory.metadata["document"], content=content, user_id=user_id, timestamp=at))
        raw = [
            {
                "content": one.content,
                "id": one.id,
                "time": one.timestamp,
                "score": hit.score,
                "relevance": hit.relevance,
            }
            for one, hit in zip(documents, found.hits, strict=True)
        ]
        return documents, {"results": raw}

    def _client(self, user: str) -> Memsvc:
        if user not in self._clients:
            address = os.environ.get("MEMSVC_ADDRESS", DEFAULT_ADDRESS)
            self._clients[user] = Memsvc(address, user_id=user, project_id=self._project)
            self._clients[user].open()
        return self._clients[user]


def _drafts(document: Document) -> Iterator[Draft]:
    """Yield a memory for each turn; the session is the document."""
    at = _moment(document.timestamp)
    for speaker, text in _turns(document):
        draft: Draft = {"content": text, "session_id": document.id, "metadata": {"document": document.id}}
        draft["kind"] = "MESSAGE" if speaker else "DOCUMENT"
        if speaker:
            draft["speaker"] = speaker
        if at is not None:
            draft["event_time"] = at
        yield draft


def _turns(document: Document) -> Iterator[tuple[str, str]]:
    """Yield speakers and texts: of the messages, of a list in JSON as LoCoMo and LongMemEval have it, or the content."""
    turns: Any = document.messages
    if not turns:
        try:
            turns = json.loads(document.content)
        except ValueError:
            turns = None
    if not isinstance(turns, list) or not all(isinstance(one, dict) for one in turns):
        turns = [{"text": document.content}]
    for turn in turns:
        text = str(turn.get("content") or turn.get("text") or "")
        if caption := turn.get("blip_caption"):
            text = f"{text} [image: {caption}]".strip()
        if text.strip():
            yield str(turn.get("speaker") or turn.get("role") or ""), text


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
