"""Images that stand in a text itself."""

from __future__ import annotations

import time
from base64 import b64encode, encodebytes

import pytest

from memsvc.domain.memory import FileRef
from memsvc.text.file_refs import InlineImage, inline_images, refs_in, with_image_refs, with_references

PNG = b"\x89PNG\r\n\x1a\n"
IMAGE = FileRef("memory", "5f1c8a52-9c1e-5d0f-8b0a-6c1f3a7f2f2e")
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
        "![x](http://example.com/a.png)", f"```\n![x]({URI})\n```", f"`![x]({URI})`", f"``图 ` ![x]({URI})``",
        f"- a `![x]({URI})`\n- b", f"- ```\n  ![x]({URI})\n  ```\n", f"a \\``![x]({URI})`",
        f"![x]({URI}", f"![x]({URI} and so on",
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


@pytest.mark.parametrize(
    "text",
    [
        "`a` ![x](URI) `b`", "\\`![x](URI)`", "` ![x](URI)", "`` ![x](URI) `", "- ` a\n- ![x](URI) `", "![`x`](URI)",
        "`\n\n![x](URI)\n\n`", "用 `命令` 画 ![x](URI)，再用 `看`", "`a\\` ![x](URI) `b`",
        "- a `\n\n  ![x](URI) ` b", "`a` " * 20_000 + "![x](URI)", "a\n" * 20_000 + "`\n\n![x](URI)\n\n`",
    ],
)  # fmt: skip
def test_images_near_code_spans_are_images(text: str) -> None:
    """Escaped, unpaired and closed backticks, and those of another block; the reference is found however deep."""
    text = text.replace("URI", URI)

    [image] = inline_images(text)

    assert image.data == PNG
    assert refs_in(with_references(text, [image], lambda _: IMAGE)) == (IMAGE,)


def test_references_of_images_are_never_left_out() -> None:
    """Not behind more other references than a memory may have, and not behind a long text."""
    many = " ".join(f"`chart:c{number}`" for number in range(70))

    found = refs_in(f"{many} ![图](memory:{IMAGE.id})")

    assert len(found) == 64
    assert found[0] == FileRef("chart", "c0")
    assert found[-1] == IMAGE
    assert refs_in(f"`chart:c0` ![图](memory:{IMAGE.id}) {many}")[1] == IMAGE
    assert refs_in(f"![图](memory:{IMAGE.id})`") == (IMAGE,)
    assert refs_in(f"```\n![图](memory:{IMAGE.id})\n```") == refs_in(f"`![图](memory:{IMAGE.id})`") == ()
    given = [FileRef("chart", f"g{number}") for number in range(64)]
    assert with_image_refs(f"![图](memory:{IMAGE.id})", given) == (*given[:63], IMAGE)
    assert with_image_refs(f"`memory:{IMAGE.id}` ![图](chart:c0)", given) == tuple(given)
