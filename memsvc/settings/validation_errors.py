"""Messages for invalid settings that say what to do next."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast, get_origin

from pydantic import BaseModel, ValidationError

from memsvc.settings.groups import BackendChoice

OF_COMMANDS = frozenset(
    {"address", "agent", "api_key", "config", "locale", "project", "secrets_dir", "session", "time_zone", "user"}
)
"""Names of variables that commands read and no setting has."""
_OF_OTHERS = re.compile(r"(tls|test)_.*|(.*_)?(service_host|service_port(_.*)?|port(_\d+_(tcp|udp|sctp).*)?)")
"""Variables of commands and tests, and those that Kubernetes sets for a Service named memsvc or memsvc-…."""
_LIKENESS = 0.8


def is_misspelt(name: str, model: type[BaseModel]) -> bool:
    """Say whether the *name* of a variable, without its prefix and without "__", was meant to be one of the settings.

    Variables of the same prefix that others set for their own ends are left alone.
    """
    if name in model.model_fields or name in OF_COMMANDS or _OF_OTHERS.fullmatch(name):
        return False
    begins = any(name.startswith(f"{group}_") for group in model.model_fields)
    return begins or bool(get_close_matches(name, model.model_fields, 1, _LIKENESS))


def paths(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """Yield the path of every setting of a model and of the groups in it."""
    for name, field in model.model_fields.items():
        yield f"{before}{name}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from paths(field.annotation, f"{before}{name}.")


def format_validation_error(error: ValidationError, model: type[BaseModel], before: str = "") -> str:
    """Return every problem of an error with the path of its setting; *before* is the prefix of each path."""
    known = tuple(paths(model))
    return "; ".join(
        _problem(cast("Mapping[str, Any]", problem), model, known, before)
        for problem in error.errors(include_input=False)
    )


def _problem(problem: Mapping[str, Any], model: type[BaseModel], known: Iterable[str], before: str) -> str:
    path = ".".join(str(part) for part in problem["loc"])
    words = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        words = _unknown(path, model, known, before)
    elif problem["type"] == "string_pattern_mismatch":
        words = _form(model, problem["loc"])
    return f"{before}{path}: {words}" if path else words


def _form(model: type[BaseModel], path: Iterable[str | int]) -> str:
    """Return in words the form that the text of a setting must have; a pattern is no help to its reader."""
    extra: Any = None
    for name in path:
        field = model.model_fields.get(str(name))
        if field is None:
            break
        extra = field.json_schema_extra
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            model = field.annotation
    return str(extra["form"]) if isinstance(extra, dict) and "form" in extra else "the text is not of the allowed form"


def _unknown(path: str, model: type[BaseModel], known: Iterable[str], before: str) -> str:
    group, _, option = path.partition(".")
    field = model.model_fields.get(group)
    if option and field is not None and field.annotation is BackendChoice:
        return f"there is no such setting; the options of a backend are below {group}.options"
    like = {one.replace(".", "_"): f"{before}{one}" for one in known}
    for found in get_close_matches(path.replace(".", "_"), like, 1, _LIKENESS):
        variable = f"MEMSVC_{like[found].replace('.', '__').upper()}"
        return f"there is no such setting; did you mean {like[found]} ({variable})?"
    if before and not like:
        return "there is no such option; this backend has none"
    if before:
        return f"there is no such option; there are {', '.join(known)}"
    return "there is no such setting; `memsvc settings` lists all of them"


# Variables and secret files that must hold JSON.


def format_json_errors(values: Mapping[str, str], model: type[BaseModel], prefix: str) -> str:
    """Return every value that must be JSON and is not, with its setting; *values* are by the name of their source.

    The values are not quoted, but those of lists: they are no secrets, and a list with commas is the usual mistake.
    """
    return "; ".join(
        f"{setting} ({name}) must be JSON, such as {example}"
        for name, value in values.items()
        for setting, example in _malformed(name, value, model, prefix)
    )


def _malformed(name: str, value: str, model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str]]:
    parts = name.lower().removeprefix(prefix).split("__")
    kind: Any = model
    for part in parts:
        field = kind.model_fields.get(part) if isinstance(kind, type) and issubclass(kind, BaseModel) else None
        if field is None:
            return
        kind = get_origin(field.annotation) or field.annotation
    if not isinstance(kind, type) or not issubclass(kind, (BaseModel, dict, tuple)):
        return
    try:
        json.loads(value)
    except ValueError:
        items = [item.strip(" '\"[]") for item in value.split(",")]
        example = json.dumps(items, ensure_ascii=False) if issubclass(kind, tuple) else '{"name": "value"}'
        yield ".".join(parts), example
