"""Items as memories: the text that is searched is the content, the exact value is JSON in the metadata.

A value that is too large for the metadata follows the text in the content.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from langgraph.store.base import Item, SearchItem

from memsvc.client import Draft
from memsvc.v1 import types_pb2 as types_pb
from memsvc_langgraph.item_filters import MOST_STRING_CHARS, has_simple_name
from memsvc_langgraph.item_keys import memory_key

FIELD = "langgraph"
"""The member of the metadata that holds all that is known of an item."""
FIELDS_PATH, PARTIAL_PATH, INDEXED_PATH = f"{FIELD}.fields", f"{FIELD}.partial", f"{FIELD}.indexed"
MOST_VALUE_BYTES = 10_000
"""The largest value in the metadata, which have at most 16 KiB; the rest is for names and copies to filter by."""
_MOST_FIELD_BYTES = 3_000
_MOST_FIELDS = 100
MOST_CONTENT_CHARS = 1_000_000


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item as it is stored.

    Attributes:
        ttl: The time to live after each write and, if wanted, each read.
    """

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    ttl: timedelta | None
    memory: types_pb.Memory

    @classmethod
    def of(cls, memory: types_pb.Memory) -> StoredItem:
        """Decode a memory that `draft_of` made."""
        fields: Any = memory.metadata[FIELD]
        text = memory.content[int(fields["offset"]) :] if "offset" in fields else fields["value"]
        ttl = timedelta(minutes=fields["ttl"]) if "ttl" in fields else None
        updated = memory.update_time.ToDatetime(UTC)
        return cls(
            namespace=stored_namespace(memory),
            key=json.loads(fields["key"]),
            value=json.loads(text),
            created_at=memory.create_time.ToDatetime(UTC),
            updated_at=datetime.fromisoformat(fields["updated"]) if "updated" in fields else updated,
            ttl=ttl,
            memory=memory,
        )

    def item(self) -> Item:
        """Return the item without a score."""
        return Item(
            value=self.value,
            key=self.key,
            namespace=self.namespace,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )

    def search_item(self, score: float | None) -> SearchItem:
        """Return the item of a search."""
        return SearchItem(
            namespace=self.namespace,
            key=self.key,
            value=self.value,
            created_at=self.created_at,
            updated_at=self.updated_at,
            score=score,
        )

    def refreshed_metadata(self) -> dict[str, Any]:
        """Return the metadata with the present time of update, which a refresh of the expiry would change."""
        metadata: Any = types_pb.Memory(metadata=self.memory.metadata).metadata
        metadata[FIELD]["updated"] = self.updated_at.isoformat()
        return dict(metadata)


def stored_namespace(memory: types_pb.Memory) -> tuple[str, ...]:
    """Return the namespace of an item from the metadata of its memory."""
    fields: Any = memory.metadata[FIELD]
    return tuple(json.loads(fields["namespace"]))


def draft_of(
    namespace: Sequence[str], key: str, value: Mapping[str, Any], *, texts: Sequence[str], ttl: float | None
) -> Draft:
    """Return the memory of an item; without *texts* no search by a query finds it. The *ttl* is in minutes.

    Raises:
        TypeError: The value is not JSON.
        ValueError: The value does not fit into a memory.
    """
    exact = _json(value)
    # An image in Markdown would become a file: the space breaks the mark.
    text = "\n".join(texts).replace("](data:", "] (data:").replace("\0", " ").encode("utf-8", "replace").decode()
    is_indexed = bool(text.strip())
    fields, is_partial = _scalars(json.loads(exact))
    item: dict[str, Any] = {
        "namespace": _json(list(namespace)),
        "key": _json(key),
        "indexed": is_indexed,
        "fields": fields,
        "partial": is_partial,
        # Makes each put a change, so that the time of update follows it.
        "put_id": str(uuid4()),
    }
    content = text if is_indexed else "-"
    if len(json.dumps(exact)) <= MOST_VALUE_BYTES:
        item["value"] = exact
    else:
        # Here an escape breaks the mark, and keeps the value.
        content = f"{text}\n\n" if is_indexed else ""
        item["offset"] = len(content)
        content += exact.replace("![", "!\\u005b")
    if len(content) > MOST_CONTENT_CHARS:
        raise ValueError(
            f"The value of {key!r} in {tuple(namespace)} has {len(content)} characters with the indexed text; "
            f"a memory has at most {MOST_CONTENT_CHARS}."
        )
    draft = Draft(
        content=content,
        key=memory_key(namespace, key),
        # Neither merged with similar memories nor read as a statement.
        kind="DOCUMENT",
        source=FIELD,
        metadata={FIELD: item},
    )
    if ttl is not None:
        item["ttl"] = ttl
        draft["ttl"] = timedelta(minutes=ttl)
    return draft


def _json(value: object) -> str:
    exact = json.dumps(dict(value) if isinstance(value, Mapping) else value, ensure_ascii=False)
    try:
        exact.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(dict(value) if isinstance(value, Mapping) else value)
    return exact


def _scalars(value: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the members that the service can filter by, and whether there are others that it would miss."""
    fields: dict[str, Any] = {}
    is_partial, size = False, 0
    for name, each in value.items():
        if not isinstance(each, str | int | float) or (isinstance(each, str) and len(each) > MOST_STRING_CHARS):
            continue
        if not has_simple_name(name):
            continue
        size += len(json.dumps({name: each}))
        if size > _MOST_FIELD_BYTES or len(fields) == _MOST_FIELDS or not _is_storable(name, each):
            is_partial = True
            continue
        fields[name] = each
    return fields, is_partial


def _is_storable(name: str, each: str | float) -> bool:
    try:
        is_text = b"\0" not in f"{name}{each}".encode()
        return is_text and (isinstance(each, str) or math.isfinite(float(each)))
    except (UnicodeEncodeError, OverflowError):
        return False
