"""The requests of the benchmark, out of the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench.synthetic_corpus import Line, Question

HITS = 10
RANGE_DAYS = 60
IMPORT_BATCH = 500


def timestamp(moment: datetime) -> Timestamp:
    """Return the moment as the wire has it."""
    made = Timestamp()
    made.FromDatetime(moment)
    return made


def scope(user: str) -> types_pb.Scope:
    """Return the scope of a user, outside projects and sessions."""
    return types_pb.Scope(user_id=user)


def memory(line: Line) -> types_pb.Memory:
    """Return the memory of a line."""
    return types_pb.Memory(
        scope=types_pb.Scope(session_id=line.session),
        content=line.text,
        kind=types_pb.MEMORY_KIND_MESSAGE if line.speaker else types_pb.MEMORY_KIND_FACT,
        speaker=line.speaker,
        event_time=timestamp(line.time),
    )


def import_messages(
    user: str,
    lines: Sequence[Line],
    *,
    wait_for: types_pb.WaitFor.ValueType = types_pb.WAIT_FOR_STORED,
    is_given: bool = True,
) -> list[bytes]:
    """Return the messages of an import, encoded beforehand so that encoding costs nothing while it runs."""
    header = memory_pb.ImportHeader(scope=scope(user), wait_for=wait_for)
    messages = [memory_pb.ImportMemoriesRequest(header=header)]
    for start in range(0, len(lines), IMPORT_BATCH):
        part = lines[start : start + IMPORT_BATCH]
        memories = [
            memory_pb.BatchMemory(memory=memory(line), vector=line.vector.tolist() if is_given else []) for line in part
        ]
        batch = memory_pb.ImportBatch(first_index=start, memories=memories)
        messages.append(memory_pb.ImportMemoriesRequest(batch=batch))
    return [message.SerializeToString() for message in messages]


def create(user: str, line: Line, wait_for: types_pb.WaitFor.ValueType) -> memory_pb.CreateMemoryRequest:
    """Return the request to store a line with its vector."""
    return memory_pb.CreateMemoryRequest(
        scope=scope(user), memory=memory(line), vector=line.vector.tolist(), wait_for=wait_for
    )


def hybrid(question: Question) -> search_pb.SearchRequest:
    """Return the search by meaning and words with the vector given."""
    return search_pb.SearchRequest(
        scope=scope(question.user), query=question.text, vector=question.vector.tolist(), limit=HITS
    )


def semantic(question: Question) -> search_pb.SearchRequest:
    """Return the search by meaning alone with the vector given."""
    return search_pb.SearchRequest(
        scope=scope(question.user),
        vector=question.vector.tolist(),
        mode=search_pb.SEARCH_MODE_SEMANTIC,
        limit=HITS,
    )


def keyword(question: Question) -> search_pb.SearchRequest:
    """Return the search by words alone."""
    return search_pb.SearchRequest(
        scope=scope(question.user), query=question.text, mode=search_pb.SEARCH_MODE_KEYWORD, limit=HITS
    )


def by_text(question: Question) -> search_pb.SearchRequest:
    """Return the search by meaning and words whose vector the service has to make."""
    return search_pb.SearchRequest(scope=scope(question.user), query=question.text, limit=HITS)


def in_range(question: Question) -> search_pb.SearchRequest:
    """Return the search by meaning and words within some weeks around the line looked for."""
    around = timedelta(days=RANGE_DAYS / 2)
    request = hybrid(question)
    request.time_range.start.CopyFrom(timestamp(question.time - around))
    request.time_range.end.CopyFrom(timestamp(question.time + around))
    return request
