"""Exports of other systems, made in their documented formats, as memories."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from memsvc.cli.enums import OtherSystem
from memsvc.cli.errors import CommandError
from memsvc.cli.import_sources import Entry
from memsvc.cli.importers import read_export
from memsvc.v1 import types_pb2 as types_pb


def read(system: OtherSystem, path: Path, *, source_user: str = "") -> list[Entry]:
    """Return the entries of an export."""
    return list(read_export(system, str(path), source_user=source_user).entries)


def memories(system: OtherSystem, path: Path, *, source_user: str = "") -> list[types_pb.Memory]:
    """Return the memories of an export."""
    return [one.memory for one in read(system, path, source_user=source_user) if one.memory is not None]


def written(path: Path, value: Any) -> Path:
    """Write JSON to a file and return its path."""
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def day(memory: types_pb.Memory) -> str:
    """Return the day of the event."""
    return f"{memory.event_time.ToDatetime():%Y-%m-%d %H:%M}"


def chatgpt_node(name: str, parent: str, role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    """Return a node of a conversation."""
    message = {
        "id": name,
        "author": {"role": role},
        "create_time": 1_767_323_045.25,
        "content": {"content_type": "text", "parts": list(parts)},
        "recipient": "all",
        "metadata": {},
        **more,
    }
    return {"id": name, "parent": parent, "children": [], "message": message}


@pytest.fixture
def chatgpt_export(tmp_path: Path) -> Path:
    """An archive with a conversation that has a branch, an image, a hidden message, and a note of the assistant."""
    nodes = [
        {"id": "root", "parent": None, "children": ["a"], "message": None},
        chatgpt_node("a", "root", "system", "", metadata={"is_visually_hidden_from_conversation": True}),
        chatgpt_node("b", "a", "user", "I moved to Kyoto. 我搬到了京都。"),
        chatgpt_node("old", "b", "assistant", "An answer that was generated again."),
        chatgpt_node("c", "b", "assistant", "User lives in Kyoto.", recipient="bio"),
        chatgpt_node("d", "c", "tool", "Model set context updated."),
        chatgpt_node("e", "d", "assistant", "Enjoy Kyoto!"),
        chatgpt_node("f", "e", "user", {"content_type": "image_asset_pointer", "asset_pointer": "file://x"}),
    ]
    conversation = {
        "conversation_id": "conv-1",
        "title": "Moving 搬家",
        "create_time": 1_767_323_000,
        "current_node": "f",
        "mapping": {node["id"]: node for node in nodes},
    }
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("conversations.json", json.dumps([conversation]))
    return path


def test_chatgpt_gives_what_was_shown_and_what_it_noted(chatgpt_export: Path) -> None:
    """Messages with time and speaker; the abandoned answer, the tool and the image are left out."""
    found = read(OtherSystem.CHATGPT, chatgpt_export)
    taken = [one.memory for one in found if one.memory is not None]
    assert [(one.content, one.speaker) for one in taken] == [
        ("I moved to Kyoto. 我搬到了京都。", "user"),
        ("User lives in Kyoto.", ""),
        ("Enjoy Kyoto!", "assistant"),
    ]
    assert [types_pb.MemoryKind.Name(one.kind) for one in taken] == [
        "MEMORY_KIND_MESSAGE",
        "MEMORY_KIND_FACT",
        "MEMORY_KIND_MESSAGE",
    ]
    assert {day(one) for one in taken} == {"2026-01-02 03:04"}
    assert taken[0].key == "chatgpt/conv-1/b"
    assert taken[0].metadata["conversation_title"] == "Moving 搬家"
    assert sum(one.is_left_out for one in found) == 3
    assert not [one for one in found if one.fault]


def test_chatgpt_without_a_last_node_takes_the_latest_leaf(tmp_path: Path) -> None:
    """A tree whose parents form a ring ends, too."""
    nodes = [chatgpt_node("a", "b", "user", "one"), chatgpt_node("b", "a", "assistant", "two")]
    nodes[0]["children"] = ["b"]
    path = written(tmp_path / "conversations-000.json", [{"id": "x", "mapping": {node["id"]: node for node in nodes}}])
    assert [one.content for one in memories(OtherSystem.CHATGPT, path)] == ["one", "two"]


def test_claude_gives_messages_and_memories(tmp_path: Path) -> None:
    """A folder with conversations and what is remembered; blocks of text count, thinking and tools do not."""
    message = {
        "uuid": "m1",
        "sender": "human",
        "text": "I am allergic to shrimp.",
        "created_at": "2026-02-14T10:04:22.000Z",
        "content": [],
    }
    answer = {
        "uuid": "m2",
        "sender": "assistant",
        "text": "Noted.",
        "created_at": "2026-02-14T18:04:30+08:00",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "记住了。"},
            {"type": "tool_use", "name": "x"},
        ],
    }
    empty = {"uuid": "m3", "sender": "human", "text": "", "content": []}
    written(
        tmp_path / "conversations.json",
        [{"uuid": "c1", "name": "Food", "project_uuid": "p1", "chat_messages": [message, answer, empty]}],
    )
    written(
        tmp_path / "memories.json",
        [{"conversations_memory": "**Work**: Ada writes Go.", "project_memories": {"p1": "用 Rust。"}}],
    )
    first, second, everywhere, project = memories(OtherSystem.CLAUDE, tmp_path)
    assert (first.content, first.speaker, day(first)) == ("I am allergic to shrimp.", "user", "2026-02-14 10:04")
    assert (second.content, second.speaker, day(second)) == ("记住了。", "assistant", "2026-02-14 10:04")
    assert (first.key, first.metadata["project"]) == ("claude/c1/m1", "p1")
    assert (everywhere.key, project.key) == ("claude/memory", "claude/memory/p1")
    assert project.content == "用 Rust。"


def test_mem0_gives_memories_with_categories_and_expiry(tmp_path: Path) -> None:
    """Of one user, chosen where there are several."""
    items = [
        {
            "id": "1",
            "memory": "Likes jazz",
            "user_id": "ada",
            "agent_id": "dj",
            "categories": ["music"],
            "metadata": {"level": 3},
            "created_at": "2025-07-01T09:00:00-07:00",
            "expiration_date": "2027-01-01",
        },
        {"id": "2", "memory": "喜欢爵士乐", "user_id": "ada"},
        {"id": "3", "user_id": "ada"},
        {"id": "4", "memory": "Of somebody else", "user_id": "bob"},
    ]
    path = written(tmp_path / "mem0.json", {"results": items})
    with pytest.raises(CommandError, match=r"2 users \('ada', 'bob'\); name one with --source-user"):
        read(OtherSystem.MEM0, path)
    with pytest.raises(CommandError, match=r"nothing of the user 'eve'; it has 'ada', 'bob'"):
        read(OtherSystem.MEM0, path, source_user="eve")
    found = read(OtherSystem.MEM0, path, source_user="ada")
    first, second = (one.memory for one in found if one.memory is not None)
    assert (first.content, list(first.tags), first.key) == ("Likes jazz", ["music"], "mem0/1")
    assert (first.metadata["level"], first.metadata["agent_id"]) == (3, "dj")
    assert day(first) == "2025-07-01 16:00"
    assert f"{first.expire_time.ToDatetime():%Y-%m-%d}" == "2027-01-01"
    assert second.content == "喜欢爵士乐"
    assert [(one.place, one.fault) for one in found if one.fault] == [("Item 3 of mem0.json", 'it has no "memory"')]


def test_zep_gives_facts_with_their_time_nodes_and_messages(tmp_path: Path) -> None:
    """A fact that ended is valid until then; an end before the beginning is dropped."""
    edges = [
        {
            "uuid": "e1",
            "fact": "Ada works at Acme",
            "name": "WORKS_AT",
            "valid_at": "2024-01-01T00:00:00Z",
            "invalid_at": "2026-01-01T00:00:00Z",
            "created_at": "2024-02-01T00:00:00Z",
            "episodes": ["x1"],
        },
        {"uuid": "e2", "fact": "阿达住在京都", "valid_at": "2026-01-01", "expired_at": "2025-01-01"},
    ]
    export = {
        "edges": edges,
        "nodes": [
            {"uuid": "n1", "name": "Acme", "summary": "A maker of anvils.", "labels": ["Entity"]},
            {"uuid": "n2", "name": "Bare"},
        ],
        "episodes": [{"uuid": "x1", "content": "I work at Acme.", "role": "Ada", "created_at": "2024-02-01T00:00:00Z"}],
    }
    found = read(OtherSystem.ZEP, written(tmp_path / "zep.json", export))
    edge, late, node, episode = (one.memory for one in found if one.memory is not None)
    assert (edge.content, edge.key, edge.metadata["relation"]) == ("Ada works at Acme", "zep/edge/e1", "WORKS_AT")
    assert edge.valid_to.ToDatetime().year == 2026
    assert late.HasField("valid_from")
    assert not late.HasField("valid_to")
    assert (node.content, list(node.tags)) == ("Acme\n\nA maker of anvils.", ["Entity"])
    assert (episode.speaker, episode.kind) == ("Ada", types_pb.MEMORY_KIND_MESSAGE)
    assert sum(one.is_left_out for one in found) == 1
    lines = tmp_path / "edges.jsonl"
    lines.write_text("\n".join(map(json.dumps, edges)))
    assert [one.key for one in memories(OtherSystem.ZEP, lines)] == ["zep/edge/e1", "zep/edge/e2"]


@pytest.mark.parametrize("is_old", [False, True], ids=["now", "before"])
def test_letta_gives_blocks_passages_and_messages(tmp_path: Path, *, is_old: bool) -> None:
    """Agent files of both forms; blocks are core memories, messages that the server made are left out."""
    blocks = [
        {"id": "block-1", "label": "human", "value": "Name: Ada", "description": "About the user"},
        {"id": "block-2", "label": "persona", "value": ""},
    ]
    said = [
        {"id": "m1", "role": "user", "content": [{"type": "text", "text": "Hello 你好"}], "created_at": "2026-01-02"},
        {"id": "m2", "role": "user", "content": '{"type": "login", "last_login": "never"}'},
        {"id": "m3", "role": "tool", "content": [{"type": "text", "text": "42"}]},
    ]
    document = (
        {"agent_type": "memgpt_agent", "core_memory": blocks, "messages": said, "name": "Sam"}
        if is_old
        else {"agents": [{"name": "Sam", "messages": said}], "blocks": blocks}
    )
    passages = written(tmp_path / "passages.json", [{"id": "p1", "text": "Ada's dog is Bo.", "tags": ["dog"]}])
    found = read(OtherSystem.LETTA, written(tmp_path / "sam.af", document))
    block, message = (one.memory for one in found if one.memory is not None)
    assert (block.content, block.key, block.tier) == ("Name: Ada", "letta/block/human", types_pb.MEMORY_TIER_CORE)
    assert (message.content, message.key) == ("Hello 你好", "letta/message/Sam/m1")
    assert sum(one.is_left_out for one in found) == 3
    [passage] = memories(OtherSystem.LETTA, passages)
    assert (passage.content, list(passage.tags)) == ("Ada's dog is Bo.", ["dog"])


def test_langgraph_gives_items_of_a_store(tmp_path: Path) -> None:
    """The text of a value, or the value as JSON; namespaces as lists and as databases keep them."""
    items = [
        {
            "namespace": ["memories", "ada"],
            "key": "k1",
            "value": {"text": "Likes tea", "mood": "calm"},
            "created_at": "2026-01-01T00:00:00+00:00",
            "updated_at": "2026-01-02T00:00:00+00:00",
        },
        {"namespace": "memories.ada", "key": "k2", "value": {"颜色": "蓝"}},
        {"namespace": [], "key": "k3", "value": "no mapping"},
    ]
    found = read(OtherSystem.LANGGRAPH, written(tmp_path / "store.json", items))
    first, second = (one.memory for one in found if one.memory is not None)
    assert (first.content, first.key) == ("Likes tea", "langgraph/memories/ada/k1")
    assert MessageToDict(first.metadata)["value"]["mood"] == "calm"
    assert day(first) == "2026-01-02 00:00"
    assert json.loads(second.content) == {"颜色": "蓝"}
    assert found[2].fault


def test_basic_memory_gives_notes_with_relations(tmp_path: Path) -> None:
    """Tags of the front matter and of observations; hidden folders are no notes."""
    (tmp_path / "coffee").mkdir()
    note = (
        "---\ntitle: Coffee Brewing 咖啡\ntype: note\ntags: [coffee]\npermalink: coffee/brewing\ncreated: 2026-01-02\n---\n"
        "# Coffee Brewing\n\n- [method] Pour over is clearer #brewing\n- relates_to [[Tea]]\n- [[Beans]]\n"
    )
    (tmp_path / "coffee" / "brewing.md").write_text(note, encoding="utf-8")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.md").write_text("no note")
    (tmp_path / "broken.md").write_text("---\n: [\n---\nx\n")
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    # A file that even an administrator cannot read.
    (tmp_path / "locked.md").symlink_to("/proc/self/mem")
    (tmp_path / "empty.md").write_text("---\ntitle: x\n---\n")
    found = read(OtherSystem.BASIC_MEMORY, tmp_path)
    [memory] = [one.memory for one in found if one.memory is not None]
    assert (memory.key, memory.title, list(memory.tags)) == (
        "basic-memory/coffee/brewing",
        "Coffee Brewing 咖啡",
        ["coffee", "brewing"],
    )
    relations: Any = MessageToDict(memory.metadata)["relations"]
    assert [(one["type"], one["target"]) for one in relations] == [
        ("relates_to", "Tea"),
        ("relates_to", "Beans"),
    ]
    assert memory.metadata["created"] == "2026-01-02"
    assert [(one.place, one.fault) for one in found if one.fault] == [
        ("The note broken.md", "its front matter is no YAML"),
        ("The note latin.md", "it is no UTF-8 text"),
        ("The note locked.md", "it cannot be read: Input/output error"),
    ]
    assert [one.place for one in found if one.is_left_out] == ["The note empty.md"]


def test_okf_gives_concepts_with_their_lifecycle(tmp_path: Path) -> None:
    """Types, provenance, trust and lifecycle; reserved files are no concepts, and a type is needed."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "index.md").write_text('---\nokf_version: "0.2"\n---\n# Tables\n')
    (tmp_path / "tables" / "log.md").write_text("# Log\n")
    (tmp_path / "tables" / "orders.md").write_text(
        "---\ntype: BigQuery Table\ntitle: Orders 订单\ndescription: One row per order.\ntags: [sales]\n"
        "resource: https://example.com/orders\nstale_after: 2027-09-23\n"
        "generated: { by: agent/1, at: 2026-05-28T14:30:00Z }\nverified: { by: human:ada, at: 2026-06-25T09:00:00Z }\n"
        "sources:\n  - id: a\n    resource: https://example.com/schema\n    last_modified: 2026-05-30\n---\n\n# Schema\n",
        encoding="utf-8",
    )
    (tmp_path / "old.md").write_text(
        "---\ntype: Preference\nstatus: deprecated\ntimestamp: 2026-01-01T00:00:00Z\n---\nLikes tea.\n"
    )
    (tmp_path / "untyped.md").write_text("---\ntitle: x\n---\ny\n")
    found = read(OtherSystem.OKF, tmp_path)
    old, orders = (one.memory for one in found if one.memory is not None)
    assert (orders.key, orders.title, orders.summary) == ("okf/tables/orders", "Orders 订单", "One row per order.")
    assert (orders.category, orders.kind) == ("BigQuery Table", types_pb.MEMORY_KIND_DOCUMENT)
    assert orders.source == "agent/1"
    assert day(orders) == "2026-05-28 14:30"
    assert f"{orders.expire_time.ToDatetime():%Y-%m-%d}" == "2027-09-23"
    metadata = MessageToDict(orders.metadata)
    assert metadata["verified"]["by"] == "human:ada"
    assert metadata["sources"][0]["last_modified"] == "2026-05-30"
    assert (old.kind, old.category) == (types_pb.MEMORY_KIND_PREFERENCE, "")
    assert old.valid_to.ToDatetime().year == 2026
    assert [(one.place, one.fault) for one in found if one.fault] == [("The concept untyped.md", 'it has no "type"')]


@pytest.mark.parametrize(
    ("system", "name", "data", "words"),
    [
        (OtherSystem.CHATGPT, "conversations.json", b'[{"chat_messages": []}]', 'no "mapping"'),
        (OtherSystem.CLAUDE, "conversations.json", b'[{"mapping": {}}]', 'no "chat_messages"'),
        (OtherSystem.CHATGPT, "x.json", b"{", "x.json is no JSON: it ends in the middle of a value"),
        (OtherSystem.MEM0, "x.jsonl", b'{"memory": "a\xe2\x80\xa8b"}\n\n{', "Line 3 of x.jsonl is no JSON: it ends"),
        (OtherSystem.MEM0, "x.json", b"\xff", "is no UTF-8"),
        (OtherSystem.MEM0, "x.json", b"{}", "nothing to import"),
        (OtherSystem.ZEP, "x.json", b"[1]", "nothing to import|is no export of Zep"),
        (OtherSystem.LETTA, "x.af", b'{"a": 1}', "is no export of Letta"),
        (OtherSystem.LANGGRAPH, "x.json", b"[]", "nothing to import"),
        (OtherSystem.MEM0, "x.json", b"[" * 100_000, "is no JSON"),
    ],
)
def test_another_file_is_refused_with_a_reason(
    tmp_path: Path, system: OtherSystem, name: str, data: bytes, words: str
) -> None:
    """The message names the file."""
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(CommandError, match=words):
        read(system, path)


def test_a_place_without_an_export_is_named(tmp_path: Path) -> None:
    """No such file, a folder and an archive without the file."""
    with pytest.raises(CommandError, match="There is no"):
        read(OtherSystem.CHATGPT, tmp_path / "gone")
    with pytest.raises(CommandError, match="has no file conversations"):
        read(OtherSystem.CHATGPT, tmp_path)
    with pytest.raises(CommandError, match="no Markdown notes"):
        read(OtherSystem.OKF, tmp_path)
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("other.txt", "x")
    with pytest.raises(CommandError, match="has no file conversations"):
        read(OtherSystem.CLAUDE, archive)


def test_long_ids_and_values_are_cut_to_what_a_memory_takes(tmp_path: Path) -> None:
    """A key that is too long is a digest, the same each time."""
    item = {"id": "i" * 400, "memory": "x", "categories": ["t" * 100, "t" * 100, 7, " "]}
    path = written(tmp_path / "m.json", [item])
    [memory] = memories(OtherSystem.MEM0, path)
    assert len(memory.key) < 256
    assert memory.key == memories(OtherSystem.MEM0, path)[0].key
    assert list(memory.tags) == ["t" * 64]


def test_half_an_emoji_is_a_question_mark(tmp_path: Path) -> None:
    """As JavaScript writes it where it cuts a text; whole emojis stay, in names and values as in texts."""
    path = tmp_path / "m.json"
    path.write_text(
        json.dumps([{"id": "a", "memory": "likes \U0001f600 and \ud83d", "metadata": {"\ude00": ["\ud83d"]}}])
    )
    [memory] = memories(OtherSystem.MEM0, path)
    assert memory.content == "likes \U0001f600 and ?"
    assert MessageToDict(memory.metadata)["?"] == ["?"]
