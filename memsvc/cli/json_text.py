"""Edits of JSON that a person wrote: other values, their order, indentation and comments stay as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

_SPACE = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_BLANK = re.compile(r"[ \t\r\n]*")
_COMMENT_OF_LINE = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)|")
_SCALAR = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|[-+.\w]+')
_INDENT = re.compile(r"\n([ \t]+)\S")
_DEFAULT_INDENT = "  "
_MOST_NESTED = 100
_Change: TypeAlias = tuple[int, int, str]
"""The begin and the end of a piece of text, and the new piece."""


class JsonTextError(ValueError):
    """A text is no JSON, or names a field twice in one object."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A member of an object or an element of a list.

    Attributes:
        begin: The place of its name, or of its value in a list.
        comma: The place of the comma behind it; None without one.
    """

    begin: int
    name: str
    node: _Node
    comma: int | None

    @property
    def end(self) -> int:
        """Return the place behind the part and its comma."""
        return self.node.end if self.comma is None else self.comma + 1


@dataclass(frozen=True, slots=True)
class _Node:
    """A value, its place and its parts."""

    value: Any
    begin: int
    end: int
    parts: Sequence[_Part] = ()


def parse_json(text: str) -> Any:
    """Return the value of a text of JSON, which may have comments, and commas before closing brackets.

    Raises:
        JsonTextError: It has another form.
    """
    return _Parser(text).parse().value


def edit_json(text: str, value: Any) -> str:
    """Return a text of JSON with the changes that make it *value*; everything else stays as it is.

    Raises:
        JsonTextError: The text is no JSON, or a comment would end up around a value.
    """
    changed = text
    for begin, end, new in sorted(_Editor(text).changes(_Parser(text).parse(), value, 0), reverse=True):
        changed = changed[:begin] + new + changed[end:]
    if _sorted(parse_json(changed)) != _sorted(value):
        message = "its comments are where no change can keep them"
        raise JsonTextError(message)
    return changed


class _Parser:
    """A reader of JSON that remembers places."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def parse(self) -> _Node:
        """Return the whole text as a value."""
        self._skip()
        node = self._node(1)
        self._skip()
        if self._place < len(self._text):
            raise self._error("there is text after the end")
        return node

    def _node(self, depth: int) -> _Node:
        if depth > _MOST_NESTED:
            raise self._error("it is nested too deep")
        begin = self._place
        if self._takes("{"):
            members = list(self._parts("}", depth, is_named=True))
            return _Node({one.name: one.node.value for one in members}, begin, self._place, members)
        if self._takes("["):
            elements = list(self._parts("]", depth, is_named=False))
            return _Node([one.node.value for one in elements], begin, self._place, elements)
        return _Node(self._scalar(), begin, self._place)

    def _parts(self, bracket: str, depth: int, *, is_named: bool) -> Iterator[_Part]:
        names = set()
        self._skip()
        while not self._takes(bracket):
            begin = self._place
            name = self._name() if is_named else ""
            if is_named and name in names:
                raise self._error(f"the field {name!r} occurs twice in one object")
            names.add(name)
            node = self._node(depth + 1)
            self._skip()
            comma = self._place - 1 if self._takes(",") else None
            if comma is None and not self._text.startswith(bracket, self._place):
                raise self._error("a comma or a closing bracket is missing")
            self._skip()
            yield _Part(begin, name, node, comma)

    def _name(self) -> str:
        name = self._scalar()
        if not isinstance(name, str):
            raise self._error("a field name in double quotes is missing")
        self._skip()
        if not self._takes(":"):
            raise self._error("a colon is missing")
        self._skip()
        return name

    def _scalar(self) -> Any:
        found = _SCALAR.match(self._text, self._place)
        try:
            value = json.loads(found[0] if found else "")
        except ValueError:
            raise self._error("a value is missing or is not JSON") from None
        self._place += len(found[0]) if found else 0
        return value

    def _takes(self, sign: str) -> bool:
        is_next = self._text.startswith(sign, self._place)
        self._place += is_next
        return is_next

    def _skip(self) -> None:
        self._place = _end(_SPACE, self._text, self._place)

    def _error(self, message: str) -> JsonTextError:
        line = self._text.count("\n", 0, self._place) + 1
        column = self._place - self._text.rfind("\n", 0, self._place)
        return JsonTextError(f"{message}, at line {line}, column {column}")


class _Editor:
    """Finder of the changes that a text needs."""

    def __init__(self, text: str) -> None:
        found = _INDENT.search(text)
        self._text = text
        self._indent = found[1] if found else _DEFAULT_INDENT
        self._newline = "\r\n" if "\r\n" in text else "\n"

    def changes(self, node: _Node, value: Any, depth: int) -> Iterator[_Change]:
        """Yield the changes of a value within *depth* containers."""
        if node.value == value:
            return
        if isinstance(node.value, dict) and isinstance(value, Mapping):
            for part in node.parts:
                if part.name in value:
                    yield from self.changes(part.node, value[part.name], depth + 1)
            added = [(f"{_line(name)}: ", value[name]) for name in value if name not in node.value]
            yield from self._resized(node, [part.name in value for part in node.parts], added, depth)
        elif isinstance(node.value, list) and isinstance(value, list) and len(node.value) == len(value):
            for part, each in zip(node.parts, value, strict=True):
                yield from self.changes(part.node, each, depth + 1)
        elif isinstance(node.value, list) and isinstance(value, list):
            kept, rest = _kept(node.value, value)
            yield from self._resized(node, kept, [("", each) for each in rest], depth)
        else:
            yield node.begin, node.end, self._block(value, depth)

    def _resized(
        self, node: _Node, kept: Sequence[bool], added: Sequence[tuple[str, Any]], depth: int
    ) -> Iterator[_Change]:
        """Yield the removal of the parts that are not *kept*, and the addition of values, with names, behind them."""
        if not any(kept):
            yield node.begin, node.end, self._container(node, added, depth)
            return
        last = max(place for place, is_kept in enumerate(kept) if is_kept)
        anchor, final = node.parts[last], node.parts[-1]
        for place, part in enumerate(node.parts):
            if kept[place]:
                continue
            if place < last:
                yield part.begin, _end(_BLANK, self._text, part.end), ""
            else:
                yield len(self._text[: part.begin].rstrip()), part.end, ""
        if not added:
            if final.comma is None and anchor.comma is not None:
                yield anchor.comma, anchor.comma + 1, ""
            return
        is_line = "\n" not in self._text[node.begin : node.end]
        gap = " " if is_line else f"{self._newline}{self._indent * (depth + 1)}"
        texts = [name + (_line(each) if is_line else self._block(each, depth + 1)) for name, each in added]
        new = gap + f",{gap}".join(texts) + ("," if final.comma is not None else "")
        behind = _end(_COMMENT_OF_LINE, self._text, anchor.end)
        if anchor.comma is None and behind == anchor.end:
            new = f",{new}"
        elif anchor.comma is None:
            yield anchor.end, anchor.end, ","
        yield behind, behind, new

    def _container(self, node: _Node, added: Sequence[tuple[str, Any]], depth: int) -> str:
        """Return a container in which nothing of the old one stays but its comments."""
        opening, closing = self._text[node.begin], self._text[node.end - 1]
        begin, end = (node.parts[0].begin, node.parts[-1].end) if node.parts else (node.begin + 1, node.begin + 1)
        before, after = self._text[node.begin + 1 : begin].rstrip(), self._text[end : node.end - 1].rstrip()
        gap = f"{self._newline}{self._indent * (depth + 1)}"
        texts = f",{gap}".join(name + self._block(each, depth + 1) for name, each in added)
        inner = f"{before}{gap if texts else ''}{texts}{after}"
        return f"{opening}{inner}{self._newline}{self._indent * depth}{closing}" if inner else f"{opening}{closing}"

    def _block(self, value: Any, depth: int) -> str:
        text = json.dumps(value, indent=self._indent, ensure_ascii=False)
        return text.replace("\n", f"{self._newline}{self._indent * depth}")


def _kept(old: Sequence[Any], new: Sequence[Any]) -> tuple[list[bool], Sequence[Any]]:
    """Return which elements of a list stay, in their order, and those of the new list that come behind them."""
    kept, place = [], 0
    for element in old:
        kept.append(place < len(new) and element == new[place])
        place += kept[-1]
    return kept, new[place:]


def _sorted(value: Any) -> str:
    # As texts: NaN is no other NaN.
    return json.dumps(value, sort_keys=True)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return found.end() if found else place
