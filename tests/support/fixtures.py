"""What several tests send: a memory with everything, a long document, the parts of an import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb

Request = memory_pb.ImportMemoriesRequest
ANIMALS = ("badger", "cormorant", "dromedary", "echidna", "flamingo", "gazelle", "hedgehog", "ibex")
FILLER = "Nothing else of any importance is said in this sentence, which only fills the page with plain words."


def whole_memory() -> types_pb.Memory:
    """Return a memory with every field that a client may set."""
    metadata = Struct()
    metadata.update(
        {"票": {"状态": "打开", "深": {"er": [1, 2.5, True, None, "🙂", {"x": []}]}}, "n": -0.25, "": "no name"}
    )
    return types_pb.Memory(
        key="报告/2026 ✅",
        scope=types_pb.Scope(project_id="项目", agent_id="agent 7", session_id="会话-1"),
        layer=types_pb.MEMORY_LAYER_SHORT_TERM,
        kind=types_pb.MEMORY_KIND_DECISION,
        category="架构",
        speaker="李雷",
        title="为什么选 SQLite 🗃️",
        content="我们决定用 SQLite。\r\n\tReasons: ‘small’ & fast 👩‍💻\n\n```sql\nselect 'é', '字';\n```\n",
        summary="SQLite 就够了",
        tags=["数据库", "choice", "emoji 🎉"],
        keywords=[types_pb.Keyword(term="SQLite", weight=0.5), types_pb.Keyword(term="决定", weight=0.75)],
        related_ids=["0190163D-8694-739B-AEA5-966C26F8AD91"],
        file_refs=[types_pb.FileRef(category=types_pb.FILE_CATEGORY_REPORT, id="q1/总结.pdf")],
        importance=5,
        tier=types_pb.MEMORY_TIER_ACTIVE,
        confidence=0.0,
        event_time=Timestamp(seconds=-86_400 * 365 * 40, nanos=123_456_789),
        expire_time=Timestamp(seconds=4_102_444_800, nanos=7_000),
        work_in_progress=True,
        source="chat.md",
        metadata=metadata,
        origin=types_pb.MEMORY_ORIGIN_USER,
        trust=0.75,
        valid_from=Timestamp(seconds=-86_400 * 365 * 40),
        valid_to=Timestamp(seconds=4_102_444_800, nanos=7_000),
        reminder=types_pb.Reminder(
            date=types_pb.CalendarDate(year=2016, month=2, day=29),
            time=types_pb.TimeOfDay(),
            recurrence=types_pb.REMINDER_RECURRENCE_YEARLY,
            time_zone="Asia/Shanghai",
            slot=types_pb.REMINDER_SLOT_MORNING,
        ),
    )


def header(scope: types_pb.Scope, **fields: object) -> Request:
    """Return the first message of an import."""
    return Request(header=memory_pb.ImportHeader(scope=scope, **fields))  # type: ignore[arg-type] # any field


def batch(first_index: int, memories: Iterable[types_pb.Memory | str]) -> Request:
    """Return a batch of an import."""
    full = (one if isinstance(one, types_pb.Memory) else types_pb.Memory(content=one) for one in memories)
    entries = [memory_pb.BatchMemory(memory=memory) for memory in full]
    return Request(batch=memory_pb.ImportBatch(first_index=first_index, memories=entries))


def batches(memories: Sequence[types_pb.Memory | str], size: int) -> Iterator[Request]:
    """Return batches of *size* that hold all memories."""
    for first in range(0, len(memories), size):
        yield batch(first, memories[first : first + size])


def document() -> str:
    """Return a handbook with a chapter and a section for each animal, each section longer than half a chunk."""
    parts = ["# Handbook\n"]
    for number, animal in enumerate(ANIMALS, start=1):
        parts.append(f"\n## Chapter {number}\n\n### Keeping the {animal}\n")
        parts.extend(f"\n{FILLER} {FILLER}\n" for _ in range(9))
        parts.append(f"\nIn the evening the {animal} eats exactly {number * 11} figs.\n")
    return "".join(parts)
