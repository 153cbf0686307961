"""Images that stand in a text itself."""

from __future__ import annotations

import time
from base64 import b64encode, encodebytes

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
        "![x](http://example.com/a.png)", f"```\n![x]({URI})\n```", f"![x]({URI}", f"![x]({URI} and so on",
        f"![x]({URI} 等等\n\n第二段（见附件）", f"![x]({URI}\n\nSee b)", f'![x]({URI} "no end)', "![x](data:image/png;base64,<the data>)",
    ],
)  # fmt: skip
def test_what_is_left_as_it_is(text: str) -> None:
    """Links, other types and encodings, and examples in code."""
    assert inline_images(text) == []
    assert referring(text) == text


@pytest.mark.parametrize("data", ["", "a", "YQ=", "Y=Q=", "iVBO…", "图", "YWJj and so on!", "YW-_"])
def test_broken_images_have_no_bytes(data: str) -> None:
    """They are told, so that the caller can be."""
    assert inline_images(f"![x](data:image/png;base64,{data})") == [
        InlineImage("image/png", "x", None, 5, 5 + len("data:image/png;base64,") + len(data))
    ]


def test_many_images_are_found_in_one_pass() -> None:
    """Also in a long text, before and behind code."""
    text = f"![1]({URI})\n\n```\n![2]({URI})\n```\n\n" + "".join(f"![{n}]({URI})\n" for n in range(1_000))

    assert len(inline_images(text)) == 1_001


@pytest.mark.parametrize("newline", ["\n", "\r\n", " ", "\t", "\n    "])
@pytest.mark.parametrize("title", ["", ' "Trend (1)"', " '趋势'", " (trend)", "\n", " =200x100", r' "a \" b" =50%x'])
def test_data_in_lines_are_one_image(newline: str, title: str) -> None:
    """As `base64` writes them, 76 columns a line; a title and a size stay behind the reference."""
    data = bytes(range(256))
    wrapped = encodebytes(data).decode().strip().replace("\n", newline)

    text = f"图 ![a](data:image/png;base64,{wrapped}{title}) end."

    assert [one.data for one in inline_images(text)] == [data]
    assert referring(text) == f"图 ![a](memory:png{title}) end."


@pytest.mark.parametrize("unit", [f"![a]({URI}", f'![a]({URI} "', "![a](data:image/png;base64,A ", f"![a]({URI} '\\"])
def test_images_without_an_end_cost_no_more_than_their_length(unit: str) -> None:
    """Four times as many take about four times as long."""

    def seconds(count: int) -> float:
        spent = []
        for _ in range(3):
            before = time.process_time()
            inline_images(unit * count)
            spent.append(time.process_time() - before)
        return min(spent)

    assert seconds(8_000) < 10 * max(seconds(2_000), 0.002)
