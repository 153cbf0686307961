"""Inputs of the tools. The ranges are the API's own; the names of enums are those of the API."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from memsvc.client.request_types import Kind, Resolution, SearchMode
from memsvc.domain import limits
from memsvc.mcp.connection import Link
from memsvc.text.recalled_text import CITATION, HANDLE

# JSON schemas as short as they can be: every character of them takes space in the model's context.


LEFT_OUT = frozenset({"title", "default", "$defs", "anyOf", "$ref"})
"""Titles repeat names, the texts say the defaults that matter, and nested models are inlined where they are used."""


class Arguments(BaseModel):
    """Base of a tool's input. Unknown names are refused, so no tool can name another scope."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Answer(BaseModel):
    """Base of a tool's output for programs. Fields that have their default are left out."""

    model_config = ConfigDict(frozen=True)

    def told(self) -> dict[str, Any]:
        """Return it as JSON."""
        return self.model_dump(mode="json", exclude_defaults=True)


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a model that does not contain itself."""
    whole = model.model_json_schema()
    found = _short(whole, whole.get("$defs", {}))
    found.pop("description", None)
    return found


def _short(node: dict[str, Any], defined: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        target = defined[node["$ref"].rpartition("/")[2]]
        node = {**{key: value for key, value in target.items() if key != "description"}, **node}
    meant = [each for each in node.get("anyOf", ()) if each != {"type": "null"}]
    if len(meant) == 1:
        return _short({**meant[0], **{key: value for key, value in node.items() if key != "anyOf"}}, defined)
    found = {key: value for key, value in node.items() if key not in LEFT_OUT}
    if "properties" in found:
        found["properties"] = {name: _short(each, defined) for name, each in found["properties"].items()}
    if "items" in found:
        found["items"] = _short(found["items"], defined)
    return found


_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?!\d)")
MAX_CONTEXT_TOKENS = 100_000
CONTEXT_TOKENS = 2_000
PART_CHARS = 20_000
"""What one call shows of a memory's content."""


def _upper(told: Any) -> Any:
    """Return the name of an enum as the API writes it."""
    return told.upper().replace("-", "_") if isinstance(told, str) else told


def _bare_id(told: Any, info: ValidationInfo) -> Any:
    """Return the id of a citation; models pass on what they read.

    The handles of contexts are looked up in the context of the validation.
    """
    if not isinstance(told, str):
        return told
    if match := HANDLE.fullmatch(told.strip()):
        memory_id = (info.context or {}).get(match["handle"])
        if memory_id is None:
            message = (
                f"{told.strip()} names no memory of a context that this conversation has asked for; call context or "
                "recall first, or give the id"
            )
            raise ValueError(message)
        return memory_id
    found = CITATION.search(told)
    return found["id"] or _bare_id(found[0], info) if found else told


def _iso(told: Any) -> Any:
    """Return the text of a date or time; a number would be read as seconds since 1970."""
    if not isinstance(told, str) or not _DATE.match(told.strip()):
        message = "give a date or time as in 2026-03-01 or 2026-03-01T18:30"
        raise ValueError(message)
    return told.strip()


def _expressible(told: datetime) -> datetime:
    """Return a moment that UTC has, too: near the ends of the calendar an offset leads out of it."""
    if told.tzinfo is not None:
        try:
            told.astimezone(UTC)
        except OverflowError as error:
            message = "give a date or time in the years 1 to 9999, in UTC, too"
            raise ValueError(message) from error
    return told


def _listed(told: Any) -> Any:
    """Return a list that came as JSON text, or as a single text."""
    if not isinstance(told, str):
        return told
    try:
        found = json.loads(told)
    except ValueError:
        return [told]
    return found if isinstance(found, list) else [told]


MemoryId = Annotated[str, BeforeValidator(_bare_id)]
Moment = Annotated[datetime, BeforeValidator(_iso), AfterValidator(_expressible), WithJsonSchema({"type": "string"})]
Content = Annotated[str, Field(min_length=1, max_length=limits.CONTENT)]
Key = Annotated[str, Field(max_length=limits.KEY)]
Tags = Annotated[list[str], BeforeValidator(_listed), Field(max_length=limits.TAGS)]
Importance = Annotated[int, Field(ge=limits.IMPORTANCE_MIN, le=limits.IMPORTANCE_MAX)]
RequestId = Annotated[str, Field(max_length=limits.REQUEST_ID)]
Limit = Annotated[int, Field(ge=1, le=limits.SEARCH_LIMIT)]
OneKind = Annotated[Kind, BeforeValidator(_upper)]
Kinds = Annotated[list[OneKind], BeforeValidator(_listed)]
KeptLayer = Annotated[Literal["CORE", "LONG_TERM", "SHORT_TERM"], BeforeValidator(_upper)]
Mode = Annotated[SearchMode, BeforeValidator(_upper)]
Speaker = Annotated[str, Field(max_length=limits.SPEAKER)]
Role = Annotated[Literal["USER", "ASSISTANT"], BeforeValidator(_upper)]


class Remember(Arguments):
    """Arguments of remember."""

    content: Content
    """One self-contained statement with names and absolute dates, in the user's language."""
    kind: OneKind | None = None
    """Default FACT."""
    layer: KeptLayer | None = None
    """CORE: loaded always, for few rules. SHORT_TERM: 14 days. Default LONG_TERM."""
    importance: Importance | None = None
    """Default 3."""
    tags: Tags = Field(default_factory=list)
    key: Key = ""
    """Name of your choice; writing it again updates that memory."""
    happened: Moment | None = None
    """ISO date or time of the event."""
    speaker: Speaker = ""
    """As in capture."""
    everywhere: bool = False
    """True: in all projects, as what concerns the person."""
    replaces: MemoryId = ""
    """Memory that is no longer true."""
    request_id: RequestId = ""
    """To repeat a failed call."""


class Recall(Arguments):
    """Arguments of recall."""

    query: Annotated[str, Field(min_length=1, max_length=limits.QUERY)]
    limit: Limit = limits.SEARCH_LIMIT_DEFAULT
    """Default 10."""
    mode: Mode | None = None
    """Default HYBRID."""
    kinds: Kinds = Field(default_factory=list)
    tags: Tags = Field(default_factory=list)
    """Has all of them."""
    since: Moment | None = None
    """ISO date: happened, or else stored, from then on."""
    until: Moment | None = None
    """ISO date: before then."""
    min_importance: Importance | None = None


class Context(Arguments):
    """Arguments of context."""

    query: Annotated[str, Field(max_length=limits.QUERY)] = ""
    """The user's message, or the task. Empty: only what always holds."""
    total_tokens: Annotated[
        int, Field(ge=100, le=MAX_CONTEXT_TOKENS, validation_alias=AliasChoices("total_tokens", "max_tokens"))
    ] = CONTEXT_TOKENS
    """Default 2000."""


class GetMemory(Arguments):
    """Arguments of get_memory."""

    id: MemoryId = ""
    key: Key = ""
    """In place of the id."""
    offset: Annotated[int, Field(ge=0, le=limits.CONTENT)] = 0
    """Character to begin at."""

    @model_validator(mode="after")
    def _names_one(self) -> GetMemory:
        if bool(self.id) == bool(self.key):
            message = "give either id or key"
            raise ValueError(message)
        return self


class UpdateMemory(Arguments):
    """Arguments of update_memory."""

    id: MemoryId
    content: Content | None = None
    kind: OneKind | None = None
    layer: KeptLayer | None = None
    importance: Importance | None = None
    tags: Tags | None = None
    """Replaces all tags."""
    key: Key | None = None
    happened: Moment | None = None
    speaker: Speaker | None = None
    expected_revision: Annotated[int, Field(ge=0)] = 0
    """Change only this revision."""
    request_id: RequestId = ""
    """To repeat a failed call."""

    @model_validator(mode="after")
    def _changes_something(self) -> UpdateMemory:
        if not self.changed():
            message = "name something to change"
            raise ValueError(message)
        return self

    def changed(self) -> dict[str, Any]:
        """Return what is to be changed, by argument."""
        names = ("content", "kind", "layer", "importance", "tags", "key", "happened", "speaker")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


class Forget(Arguments):
    """Arguments of forget."""

    id: MemoryId
    permanently: bool = False
    """True: beyond recovery, with its history. Only if the user asks for exactly that."""
    undo: bool = False
    """True: bring back the forgotten or replaced."""
    request_id: RequestId = ""
    """To repeat a failed call."""

    @model_validator(mode="after")
    def _is_one_thing(self) -> Forget:
        if self.undo and self.permanently:
            message = "undo and permanently exclude each other"
            raise ValueError(message)
        return self


class Recent(Arguments):
    """Arguments of recent."""

    limit: Limit = 20
    """Default 20."""
    kinds: Kinds = Field(default_factory=list)
    tags: Tags = Field(default_factory=list)
    """Has all of them."""
    last_days: Annotated[int, Field(ge=1, le=36_500)] | None = None


class Capture(Arguments):
    """Arguments of capture."""

    text: Annotated[str, Field(min_length=1, max_length=limits.SPOKEN)]
    """Word for word."""
    role: Role = "USER"
    """Default USER."""
    speaker: Speaker = ""
    """Who said it, if several people share this memory."""
    dry_run: bool = False
    """True: only tell."""
    request_id: RequestId = ""
    """To repeat a failed call."""


class Conflicts(Arguments):
    """Arguments of conflicts."""

    limit: Limit = 10
    """Default 10."""


class ResolveConflict(Arguments):
    """Arguments of resolve_conflict."""

    id: Annotated[str, Field(min_length=1, max_length=limits.KEY)]
    """Of the conflict."""
    resolution: Annotated[Resolution, BeforeValidator(_upper)]
    """CONFIRM: the newer holds; REJECT: the older."""
    request_id: RequestId = ""
    """To repeat a failed call."""


class Reminders(Arguments):
    """Arguments of reminders."""

    given: Annotated[list[MemoryId], BeforeValidator(_listed), Field(max_length=limits.SEARCH_LIMIT)] = Field(
        default_factory=list
    )
    """Ids of those the user knows; not returned again."""
    days_ahead: Annotated[int, Field(ge=0, le=limits.DAYS_AHEAD)] = 0


# A call of a tool and its reply.


Progress = Callable[[float, str], Awaitable[None]]
"""Tells the client that a call goes on: a growing number, and a word."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool.

    Attributes:
        link: The service to ask.
        request_id: What makes a repetition of a change safe: the client's, or one made for this call.
        progress: Tells how far it is.
    """

    link: Link
    request_id: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class Reply:
    """Reply of a tool: the text for the model, and the same values for programs."""

    text: str
    answer: Answer | None = None
