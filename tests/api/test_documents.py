"""Long content: found by its chunks, shown once, with lines and headings."""

from __future__ import annotations

import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.fixtures import ANIMALS, document
from tests.support.rpc import KEYWORD, MODES, TIMEOUT, create, get, search
from tests.support.server_process import Stubs


@pytest.mark.parametrize("mode", MODES)
def test_a_document_is_one_hit_with_the_lines_and_headings_of_its_best_chunk(
    stubs: Stubs, scope: types_pb.Scope, mode: int
) -> None:
    """Each question leads to its own section, in every mode that knows the words."""
    content = document()
    memory = create(stubs, scope, content, kind=types_pb.MEMORY_KIND_DOCUMENT, title="Zoo")
    create(stubs, scope, "Something short beside it.")
    lines = content.split("\n")

    assert content == get(stubs, scope, memory.id).content
    for number, animal in enumerate(ANIMALS, start=1):
        hits = search(stubs, scope, f"How many figs does the {animal} eat in the evening?", mode=mode).hits
        hit = next(one for one in hits if one.memory.id == memory.id)
        assert [memory.id] == [one.memory.id for one in hits if one.memory.id == memory.id]
        assert 1 <= hit.start_line <= hit.end_line <= len(lines)
        if mode == KEYWORD:
            place = lines.index(f"In the evening the {animal} eats exactly {number * 11} figs.") + 1
            assert hit.start_line <= place <= hit.end_line, animal
            assert f"Handbook > Chapter {number} > Keeping the {animal}" == hit.heading_path
            assert f"{animal} eats exactly {number * 11} figs" in hit.snippet
            assert hit.chunk_ordinal >= number - 1
            marked = {hit.snippet[span.start : span.end].lower() for span in hit.spans}
            assert {animal, "figs", "eats", "evening"} <= marked


def test_the_chunks_of_a_document_are_counted_once_indexed(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The store and both indexes agree on their number; the memory is one."""
    create(stubs, scope, document())
    stats = stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=scope), timeout=TIMEOUT)

    assert stats.memory_count == 1
    assert stats.chunk_count >= len(ANIMALS)
    assert stats.chunk_count == stats.vector_count == stats.lexical_count


def test_a_chinese_document_is_found_by_its_sections(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Long text without spaces is split and highlighted too."""
    sections = [
        f"## 第{number}节\n\n" + "这一段只是为了填满页面,没有别的内容。" * 40 + f"\n\n园长在{place}种了{tree}。\n"
        for number, (place, tree) in enumerate([("南山", "银杏"), ("北湖", "樱花"), ("东门", "梧桐")], start=1)
    ]
    content = "# 手册\n\n" + "\n".join(sections)
    memory = create(stubs, scope, content)
    hit = search(stubs, scope, "园长在哪里种了樱花?", mode=KEYWORD).hits[0]

    assert memory.id == hit.memory.id
    assert "手册 > 第2节" == hit.heading_path
    assert "园长在北湖种了樱花" in hit.snippet
    assert "樱花" in {hit.snippet[span.start : span.end] for span in hit.spans}
    assert content.split("\n")[hit.start_line - 1 : hit.end_line]


def test_a_changed_document_is_found_by_its_new_chunks_only(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A document that shrinks leaves no chunk behind."""
    create(stubs, scope, document(), key="doc")
    shorter = create(stubs, scope, "## Only\n\nthe badger is left", key="doc")
    stats = stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=scope), timeout=TIMEOUT)

    assert shorter.revision == 2
    assert (1, 1, 1) == (stats.chunk_count, stats.vector_count, stats.lexical_count)
    assert [] == list(search(stubs, scope, "cormorant", mode=KEYWORD).hits)
    assert (1, 3) == ((hit := search(stubs, scope, "badger", mode=KEYWORD).hits[0]).start_line, hit.end_line)
