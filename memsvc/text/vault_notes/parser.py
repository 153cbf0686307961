"""From a file to what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import yaml

from memsvc.domain import limits
from memsvc.domain.field_rules import is_blank
from memsvc.domain.vault import Note, NoteError, NoteFormat
from memsvc.domain.write_requests import PatchValue
from memsvc.text.vault_notes.fields import FieldError, read_field, read_metadata
from memsvc.text.vault_notes.okf import plain_front
from memsvc.text.vault_notes.renderer import DEFAULTS, refs_to_list

FILE_BYTES = 8_000_000
"""A larger file is not read: no content may be that long."""
FRONT_CHARS = 200_000
FRONT_DEPTH = 100
_BRACKET = re.compile(r"[\[\]{}]")
_BOM = "\ufeff"
_CLOSING = re.compile(r"^---[ \t]*(\r?\n|\Z)", re.MULTILINE)
_OPENING = re.compile(r"(?P<blank>(?:[ \t]*\r?\n)*)---[ \t]*(?P<end>\r?\n)")
_NAME = re.compile(r"[\"']?[\w-]+[\"']?[ \t]*:")
_ID = re.compile(
    r"^[\"']?id[\"']?[ \t]*:[ \t]*[\"']?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[\"']?[ \t]*\r?$",
    re.IGNORECASE | re.MULTILINE,
)
_FRONT_LINE = re.compile(r"(?:[\"']?(?P<name>[\w-]+)[\"']?[ \t]*:(?=[ \t\r\n]|\Z)|-[ \t]|[ \t]+\S)[^\n]*(?:\n|\Z)")
_WORDLESS_LINES = re.compile(r"(?:[^\w\n]*\n)*")
_TELLING = frozenset({"layer", "kind", "create_time", "generated"})
"""Names that every file of the service has, and texts seldom; two of them are in the files of either format."""
_TELLING_COUNT = 2
_MERGE_MARK = re.compile(
    r"^(?:(?P<start><{7})(?=[ \t\r\n]|\Z)|={7}(?=[ \t]*\r?$)|(?P<end>>{7})(?=[ \t\r\n]|\Z))", re.MULTILINE
)
_OF_TRANSCRIPTS = frozenset({"session", "first_time", "messages"})
_SHOWN = frozenset({"id", "agent", "session", "create_time", "supersedes", "superseded_by", "metadata"})
"""Names of the front matter that are not fields that an edit changes, or are read otherwise."""


def read_note(data: bytes, form: NoteFormat = NoteFormat.MEMSVC) -> Note:
    """Return what a file of a format says; a file without front matter says no more than its content.

    Raises:
        NoteError: It is no UTF-8, its front matter is no YAML or says what no memory can, or it has no content.
    """
    blank, text = _without_blank_lines(_text(data).removeprefix(_BOM))
    try:
        return _read_text(text, form)
    except NoteError as error:
        raise NoteError(error.line + blank if error.line else 0, error.description) from error


def is_transcript(data: bytes) -> bool:
    """Return whether a file is the transcript of a session, as the service writes it."""
    try:
        front, _, _ = _split_front_matter(_text(data).removeprefix(_BOM))
        values = _front_values(front)
    except NoteError:
        return False
    return values.get("read_only") is True and "id" not in values and values.keys() >= _OF_TRANSCRIPTS


def unmerged_lines(data: bytes) -> list[int]:
    """Return the lines at which the unmerged parts of a file begin: <<<<<<<, =======, >>>>>>> at starts of lines."""
    if b"<<<<<<<" not in data:
        return []
    text = data.decode(errors="replace")
    found: list[int] = []
    line, counted = 1, 0
    start, is_divided = 0, False
    for mark in _MERGE_MARK.finditer(text):
        line, counted = line + text.count("\n", counted, mark.start()), mark.start()
        if mark["start"]:
            start, is_divided = line, False
        elif not mark["end"]:
            is_divided = True
        elif start and is_divided:
            found.append(start)
            start = 0
    return found


def _read_text(text: str, form: NoteFormat) -> Note:
    front, body, is_windows = _split_front_matter(text)
    values = _front_values(front)
    if form is NoteFormat.OKF:
        values = plain_front(values)
    content = body.replace("\r\n", "\n") if is_windows else body
    note = _note(front, values, content)
    _check_content(str(note.values["content"]), _line_of_body(front))
    return note


def _without_blank_lines(text: str) -> tuple[int, str]:
    """Return the number of blank lines before front matter, and the text without them."""
    opening = _OPENING.match(text)
    if opening is None or not opening["blank"] or _NAME.match(text, opening.end()) is None:
        return 0, text
    return opening["blank"].count("\n"), text[opening.end("blank") :]


def _text(data: bytes) -> str:
    if len(data) > FILE_BYTES:
        raise NoteError(0, f"The file has more than {FILE_BYTES:,} bytes.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise NoteError(line, f"The file is not UTF-8 (byte {error.start + 1}); save it as UTF-8.") from error


def _split_front_matter(plain: str) -> tuple[str | None, str, bool]:
    """Return front matter (None: there is none), content, and whether the file has Windows line ends throughout.

    Raises:
        NoteError: The front matter of a memory does not begin or does not end.
    """
    opening = _OPENING.match(plain)
    if opening is None or opening["blank"]:
        if _is_front_without_opening(plain):
            raise NoteError(1, "The front matter does not begin with a line ---: put one above it.")
        return None, *_whole_body(plain)
    closing = _CLOSING.search(plain, opening.end())
    if closing is None:
        if _ID.search(plain, opening.end()):
            raise NoteError(1, "The front matter does not end: put a line --- below it.")
        return None, *_whole_body(plain)
    front, rest = plain[opening.end() : closing.start()], plain[closing.end() :]
    for line_end in ("\r\n", "\n"):
        if rest.startswith(line_end):
            rest = rest[len(line_end) :]
            break
    is_windows = opening["end"] == "\r\n"
    return front, _without_end(rest, is_windows=is_windows), is_windows


def _is_front_without_opening(text: str) -> bool:
    """Return whether a text begins with the front matter of a memory, perhaps below the remains of its first line.

    Names and values alone may be content: an id and a closing line, or two names that all files of memories have.
    """
    start = at = _WORDLESS_LINES.match(text).end()  # type: ignore[union-attr]  # it matches any text
    names: set[str] = set()
    while at < FRONT_CHARS and (line := _FRONT_LINE.match(text, at)) is not None and line.end() > at:
        names.add(line["name"] or "")
        at = line.end()
    has_id = _ID.search(text, start, at) is not None
    has_names = len(names & _TELLING) >= _TELLING_COUNT
    return (has_id or has_names) if _CLOSING.match(text, at) else (has_id and has_names)


def _whole_body(text: str) -> tuple[str, bool]:
    is_windows = "\r\n" in text and "\n" not in text.replace("\r\n", "")
    return _without_end(text, is_windows=is_windows), is_windows


def _without_end(body: str, *, is_windows: bool) -> str:
    """Return *body* without the one line end that every file has in the end."""
    return body.removesuffix("\r\n" if is_windows else "\n")


def _front_values(front: str | None) -> Mapping[str, Any]:
    if front is None:
        return {}
    if len(front) > FRONT_CHARS:
        raise NoteError(1, f"The front matter has more than {FRONT_CHARS:,} characters.")
    _check_depth(front)
    try:
        loaded = load_front(front)
    except NoteError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        line = mark.line + 2 if mark is not None else 2
        raise NoteError(line, f"The front matter is no YAML: {problem}.") from error
    except Exception as error:  # a value that is not of its tag (!!bool x, !!timestamp x) raises whatever comes of it
        raise NoteError(
            2, "The front matter holds a value that cannot be read, such as a day no calendar has."
        ) from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict) or not all(isinstance(name, str) for name in loaded):
        raise NoteError(2, "The front matter must be names and values, such as 'title: Something'.")
    return loaded


def _check_depth(front: str) -> None:
    """Refuse brackets in brackets before they are parsed: that takes the square of their depth.

    Raises:
        NoteError: They are too deep. Those in quotes count, too.
    """
    depth = 0
    for match in _BRACKET.finditer(front):
        depth = depth + 1 if match[0] in "[{" else max(0, depth - 1)
        if depth > FRONT_DEPTH:
            line = front.count("\n", 0, match.start()) + 2
            raise NoteError(line, f"The front matter has more than {FRONT_DEPTH} brackets in each other.")


def _note(front: str | None, given: Mapping[str, Any], content: str) -> Note:
    memory_id = _word(front, given, "id")
    values: dict[str, PatchValue] = {"content": content}
    if "file_refs" not in given:
        values["content"], refs = refs_to_list(content)
        if refs:
            values["file_refs"] = refs
    others: dict[str, Any] = {}
    for name, value in given.items():
        try:
            if name in _SHOWN:
                continue
            if (read := read_field(name, value)) is None:
                others[name] = value
            else:
                values[name] = read.value
        except FieldError as error:
            raise NoteError(_line_of(front, name), f"{name} {error}.") from error
    try:
        metadata = read_metadata(given.get("metadata"), others)
    except FieldError as error:
        name = "metadata" if "metadata" in given else next(iter(others), "metadata")
        raise NoteError(_line_of(front, name), f"{name} {error}.") from error
    if "metadata" in given or others:
        values["metadata"] = metadata
    complete = {**DEFAULTS, **values} if memory_id else values
    return Note(complete, memory_id, _word(front, given, "agent"), _word(front, given, "session"))


def _word(front: str | None, given: Mapping[str, Any], name: str) -> str:
    value = given.get(name, "")
    if value is None:
        return ""
    if not isinstance(value, (str, int)) or isinstance(value, bool) or len(str(value)) > limits.SCOPE_ID:
        raise NoteError(_line_of(front, name), f"{name} must be a short text.")
    return str(value)


def _line_of(front: str | None, name: str) -> int:
    """Return the line of the file in which the front matter names a field."""
    if front is None:
        return 0
    found = re.search(rf"^[\"']?{re.escape(name)}[\"']?[ \t]*:", front, re.MULTILINE)
    return front.count("\n", 0, found.start()) + 2 if found else 2


def _line_of_body(front: str | None) -> int:
    return 1 if front is None else front.count("\n") + 3


def _check_content(content: str, line: int) -> None:
    if is_blank(content):
        raise NoteError(line, "The file has no content.")
    if len(content) > limits.CONTENT:
        raise NoteError(line, f"The content must have at most {limits.CONTENT:,} characters.")
    if "\0" in content:
        raise NoteError(line + content.count("\n", 0, content.index("\0")), "The content must not contain NUL.")


# Front matter as people mean it: YAML whose numbers and days remember how they were written.
#
# YAML 1.1, which PyYAML reads, takes `12:30` for 750, `010` for 8 and `no` for false; and a title `1.10` would come
# back as `1.1`. As in YAML 1.2 only plain decimal numbers are numbers here, and only true and false are that; what
# begins with a zero is an article's or area's number, and stays as it is.


_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(
    r"(?:[-+]?(?:0|[1-9][0-9]*)\.[0-9]*(?:[eE][-+][0-9]+)?|\.[0-9]+(?:[eE][-+][0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)
"""Nothing is a number that YAML 1.1 takes for text: so all texts that could be mistaken are written with quotes."""
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
_NUMBERS = "int", "float", "bool"


class _ScalarAsWritten:
    """A value that is shown as it was written."""

    written: str

    def __str__(self) -> str:
        return self.written


class _Int(_ScalarAsWritten, int):
    pass


class _Float(_ScalarAsWritten, float):
    pass


class _Date(_ScalarAsWritten, date):
    pass


class _Moment(_ScalarAsWritten, datetime):
    pass


class _Loader(yaml.CSafeLoader):
    """Reads plain scalars as the module says; explicit tags mean what they mean in YAML 1.1."""


def _tag(name: str) -> str:
    return f"tag:yaml.org,2002:{name}"


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag not in {_tag(name) for name in _NUMBERS}]
    for first, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_tag("bool"), _BOOL, list("tTfF"))
_Loader.add_implicit_resolver(_tag("int"), _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(_tag("float"), _FLOAT, list("-+.0123456789"))


def _int(loader: Any, node: Any) -> int:
    found = _Int(loader.construct_yaml_int(node))
    found.written = node.value
    return found


def _float(loader: Any, node: Any) -> float:
    found = _Float(loader.construct_yaml_float(node))
    found.written = node.value
    return found


def _timestamp(loader: Any, node: Any) -> date:
    read = loader.construct_yaml_timestamp(node)
    found: _Date | _Moment
    if isinstance(read, datetime):
        found = _Moment.combine(read.date(), read.timetz())
    else:
        found = _Date(read.year, read.month, read.day)
    found.written = node.value
    return found


_Loader.add_constructor(_tag("int"), _int)
_Loader.add_constructor(_tag("float"), _float)
_Loader.add_constructor(_tag("timestamp"), _timestamp)


def load_front(text: str) -> Any:
    """Return what front matter says. Of numbers, days and moments `str` returns what is written.

    Raises:
        yaml.YAMLError: It is no YAML.
        NoteError: A name occurs twice, or the text is too long with its aliases written out.
        Exception: A value is not of its explicit tag (`!!bool x`), or is a day that no calendar has.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_size(root: yaml.Node) -> None:
    """Refuse values that repeat others, by aliases (`*name`) or merges (`<<`), until they fill the memory.

    Raises:
        NoteError: With all aliases written out the text is too long, or a name occurs twice or is a merge.
    """
    sizes: dict[yaml.Node, int] = {}

    def size_of(node: yaml.Node) -> int:
        if node not in sizes:
            sizes[node] = FRONT_CHARS  # an alias to a value that contains it
            if isinstance(node, yaml.ScalarNode):
                sizes[node] = len(node.value)
            elif isinstance(node, yaml.MappingNode):
                _check_names(node)
                sizes[node] = 1 + sum(size_of(part) for pair in node.value for part in pair)
            else:
                sizes[node] = 1 + sum(map(size_of, node.value))
            if sizes[node] > FRONT_CHARS:
                line = node.start_mark.line + 2
                raise NoteError(line, f"The front matter has more than {FRONT_CHARS:,} characters with its aliases.")
        return sizes[node]

    size_of(root)


def _check_names(node: yaml.MappingNode) -> None:
    names: set[tuple[str, str]] = set()
    for name, _ in node.value:
        if not isinstance(name, yaml.ScalarNode):
            continue
        line = name.start_mark.line + 2
        if name.tag == _tag("merge"):
            raise NoteError(line, "The front matter must not merge values with '<<': write them out.")
        if (name.tag, name.value) in names:
            raise NoteError(line, f"The front matter names {name.value[:64]!r} twice: remove one of the two.")
        names.add((name.tag, name.value))
