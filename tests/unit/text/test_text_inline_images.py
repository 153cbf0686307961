"""Images that stand in a text itself."""

from __future__ import annotations

from base64 import b64encode

import pytest

from memsvc.domain.memory import FileRef
from memsvc.text.file_refs import InlineImage, inline_images, refs_in, with_references

PNG = b"\x89PNG\r\n\x1a\n"
URI = f"data:image/png;base64,{b64encode(PNG).decode()}"


def referring(text: str) -> str:
    """Return a text with each image replaced by a reference that says its type."""
    return with_references(text, inline_images(text), lambda one: FileRef("memory", one.media_type.partition("/")[2]))


def test_images_become_references() -> None:
    """Those in Chinese and English text; the text around them stays, and the references are found again."""
    text = f'趋势 ![异常图表]({URI}) and ![trend]({URI.replace("png", "svg+xml;charset=utf-8", 1)} "Trend").'

    images = inline_images(text)

    assert [(one.media_type, one.alt, one.data) for one in images] == [
        ("image/png", "异常图表", PNG),
        ("image/svg+xml", "trend", PNG),
    ]
    assert referring(text) == '趋势 ![异常图表](memory:png) and ![trend](memory:svg+xml "Trend").'
    assert refs_in(referring(text)) == (FileRef("memory", "png"), FileRef("memory", "svg+xml"))


@pytest.mark.parametrize(
    "text",
    [
        "", "no image", f"[a link]({URI})", URI, "![x](data:image/png,abc)", "![x](data:text/plain;base64,YQ==)",
        "![x](http://example.com/a.png)", f"```\n![x]({URI})\n```", f"![x]({URI}",
    ],
)  # fmt: skip
def test_what_is_left_as_it_is(text: str) -> None:
    """Links, other types and encodings, and examples in code."""
    assert inline_images(text) == []
    assert referring(text) == text


@pytest.mark.parametrize("data", ["", "a", "YQ=", "Y=Q="])
def test_broken_images_have_no_bytes(data: str) -> None:
    """They are told, so that the caller can be."""
    assert inline_images(f"![x](data:image/png;base64,{data})") == [
        InlineImage("image/png", "x", None, 5, 5 + len("data:image/png;base64,") + len(data))
    ]


def test_many_images_are_found_in_one_pass() -> None:
    """Also in a long text, before and behind code."""
    text = f"![1]({URI})\n\n```\n![2]({URI})\n```\n\n" + "".join(f"![{n}]({URI})\n" for n in range(1_000))

    assert len(inline_images(text)) == 1_001
