"""Titles in the lines that tools show of memories."""

from __future__ import annotations

import pytest

from memsvc.mcp.connection import BridgeScope
from memsvc.mcp.formatting import hit_shown, shown
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb

PLACE = BridgeScope("127.0.0.1:50051", "ada")


def line(title: str, content: str, *, speaker: str = "") -> str:
    return shown(types_pb.Memory(id="m", title=title, content=content, speaker=speaker), PLACE).text


@pytest.mark.parametrize(
    ("title", "content"),
    [
        ("", "The kiln opens at nine."),
        ("Lily's dentist is Dr. Moreau", "Lily's dentist is Dr. Moreau, on Station Road."),
        ("LILY'S  DENTIST is dr. moreau.", "Lily's dentist\nis Dr. Moreau"),
        ("We decided to move the weekly planning meeting to…", "We decided to move the weekly planning meeting today."),
        ("the boiler code is 4711", "Please remember that the boiler code is 4711."),
        ("Kiln rules", "# Kiln rules\n\nNever open it hot."),
        ("Kiln", "- kiln: opens at nine"),
        ("我对花生过敏", "我对花生过敏，尤其是生的。"),
        ("花生", "花生过敏的是小明"),
        ("我们决定把每周的计划会议改到…", "我们决定把每周的计划会议改到星期四下午三点。"),
        ("妈妈的牙医是诊所的王医生。", "请记住，妈妈的牙医是诊所的王医生"),
    ],
)
def test_a_title_that_the_text_repeats_is_left_out(title: str, content: str) -> None:
    """The model reads a captured memory once, in both languages."""
    assert line(title, content) == " ".join(content.split())


@pytest.mark.parametrize(
    ("title", "content"),
    [
        ("Art", "Artichokes are in season in May."),
        ("Boiler", "The code of the boiler is 4711."),
        ("C++", "C is the language of the firmware."),
        ("Dentist", "Lily's dentist is Dr. Moreau."),
        ("Plan 1", "Plan 12 is the last one."),
        ("Café", "Cafés open at nine."),
        ("???", "What is this?"),
        ("花生", "对花生过敏的是小明"),
        ("窑炉规定", "窑炉很热时不要打开。"),
    ],
)
def test_another_title_stays(title: str, content: str) -> None:
    """A word that is the beginning of another word, or that comes later, is not repeated."""
    assert line(title, content) == f"{title} - {content}"


def test_the_speaker_stays_without_the_title() -> None:
    """The line begins with who said it."""
    assert line("I am allergic to nuts", "I am allergic to nuts.", speaker="Lily") == "Lily: I am allergic to nuts."


@pytest.mark.parametrize(
    ("snippet", "expected"),
    [
        ("Kiln rules: never open it hot.", "Kiln rules: never open it hot."),
        ("…never open it hot.", "Kiln rules - …never open it hot."),
    ],
)
def test_the_title_is_compared_with_the_snippet_of_a_hit(snippet: str, expected: str) -> None:
    """A passage from within a long text needs the title, with which only the text begins."""
    hit = search_pb.Hit(memory=types_pb.Memory(id="m", title="Kiln rules", content="Kiln rules: …"), snippet=snippet)

    assert hit_shown(hit, PLACE).text == expected
