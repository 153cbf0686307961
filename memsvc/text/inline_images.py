"""Images that stand in a text itself, as `data:` URIs in base64, and the text that refers to them instead."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from bisect import bisect_right
from dataclasses import dataclass

from memsvc.text.markdown import BlockKind, blocks

MARK = "](data:image/"
_IMAGE = re.compile(
    r"(?<=!\[)(?P<alt>[^\[\]\n]{0,512})\]\("
    r"(?P<uri>data:(?P<type>image/[a-z0-9][a-z0-9.+-]{0,63})(?:;[a-z0-9-]{1,32}=[\w.-]{0,64})?;base64,"
    r"(?P<data>[A-Za-z0-9+/=]*))(?=[)\s])"
)


@dataclass(frozen=True, slots=True)
class InlineImage:
    """An image in a text: its type, its bytes, and where its URI stands. None as bytes: they are no base64."""

    media_type: str
    alt: str
    data: bytes | None
    start: int
    end: int


def inline_images(text: str) -> list[InlineImage]:
    """Return the images in *text*, in order, but for those in blocks of code, which are examples."""
    if MARK not in text:
        return []
    found = list(_IMAGE.finditer(text))
    spans = [(block.start, block.end) for block in blocks(text) if block.kind is BlockKind.CODE] if found else []
    starts = [start for start, _ in spans]

    def is_code(place: int) -> bool:
        at = bisect_right(starts, place) - 1
        return at >= 0 and place < spans[at][1]

    return [
        InlineImage(one["type"], one["alt"], _decoded(one["data"]), *one.span("uri"))
        for one in found
        if not is_code(one.start())
    ]


def _decoded(data: str) -> bytes | None:
    try:
        return b64decode(data, validate=True) or None
    except Error:
        return None
