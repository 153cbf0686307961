"""Reference of all settings, generated from the settings tree and the options of installed backends."""

from __future__ import annotations

import enum
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import annotated_types
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from memsvc.bootstrap.plugins import GROUPS, FoundBackend, PluginError, found_backends, load_backend
from memsvc.settings import Settings
from memsvc.settings.groups import BackendChoice

PREFIX = "MEMSVC_"
OURS = "memsvc "
"""What the distribution begins with whose backends are on docs/reference/settings.md."""
SAME_OPTIONS = {"previous_embedder": "embedder"}
"""Ports whose backends are those of another."""
_CHOICES = re.compile(r"\^\(([\w|]+)\)\$")
_KINDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    SecretStr: "secret",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        path: Its name in memsvc.toml, with dots.
        default: What holds when nothing is said, as in memsvc.toml; empty: nothing, or what *meaning* says.
        values: What may be said.
        meaning: What it does, with its unit.
        port: The port whose backend has it as an option; empty for a setting of the tree.
        backend: That backend.
    """

    path: str
    default: str
    values: str
    meaning: str
    port: str = ""
    backend: str = ""

    @property
    def variable(self) -> str:
        """Return the name of the variable that sets it."""
        return PREFIX + self.path.replace(".", "__").upper()


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The settings, and the backends whose options are unknown, with the reason."""

    settings: tuple[Setting, ...]
    missing: tuple[str, ...]


def catalogue(*, ours_alone: bool = False) -> Catalogue:
    """Return every setting, in the order of the tree; the options of a port's backends follow it, by name.

    *ours_alone* leaves out the backends of other distributions.
    """
    settings: list[Setting] = []
    missing: list[str] = []
    backends = [one for one in found_backends() if not ours_alone or one.distribution.startswith(OURS)]
    for name, field in Settings.model_fields.items():
        settings.extend(_settings(name, field))
        for backend in backends if name in GROUPS else ():
            if backend.port != name:
                continue
            try:
                settings.extend(_options(backend))
            except PluginError as error:
                missing.append(str(error))
    return Catalogue(tuple(settings), tuple(missing))


def _settings(path: str, field: FieldInfo) -> Iterator[Setting]:
    """Return the settings of a field of the tree: those of its group, or itself."""
    model = _model(field)
    if model is BackendChoice:
        default = field.default.backend
        yield Setting(f"{path}.backend", json.dumps(default), _names(path), field.description or "")
        if path in SAME_OPTIONS:
            yield Setting(f"{path}.options", "", "table", f"The options of the backend, as of {SAME_OPTIONS[path]}.")
    elif model is not None:
        yield from _group(path, model)
    else:
        yield Setting(path, _default(field), _values(field), field.description or "")


def _group(path: str, model: type[BaseModel]) -> Iterator[Setting]:
    for name, field in model.model_fields.items():
        yield from _settings(f"{path}.{name}", field)


def _options(backend: FoundBackend) -> Iterator[Setting]:
    """Return the options of a backend.

    Raises:
        PluginError: It cannot be loaded.
    """
    model = load_backend(backend.port, backend.name).settings
    for one in _group(f"{backend.port}.options", model):
        yield Setting(one.path, one.default, one.values, one.meaning, backend.port, backend.name)


def _model(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _names(port: str) -> str:
    is_optional = Settings.model_fields[port].default.backend == "none"
    return ("none, or " if is_optional else "") + "a name of `memsvc backends`"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is PydanticUndefined or value is None:
        return ""
    if isinstance(value, SecretStr):
        return '""'
    if isinstance(value, tuple | frozenset | set):
        value = [*value]
    return json.dumps(value, ensure_ascii=False, default=str)


def _values(field: FieldInfo) -> str:
    """Return what may be said, in words: the kind, or the choices, and the bounds."""
    for one in field.metadata:
        if choices := _CHOICES.fullmatch(str(getattr(one, "pattern", "") or "")):
            return choices[1].replace("|", ", ")
    return ", ".join([_kind(field.annotation), *_bounds(field)])


def _kind(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(_kind(one) for one in arguments if one is not type(None))
    if origin is typing.Annotated:
        return _kind(arguments[0])
    if origin in {tuple, list, set, frozenset}:
        return f"list of {_kind(arguments[0])}"
    if origin is dict or annotation is dict:
        return "table"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return ", ".join(str(one.value) for one in annotation)
    return _KINDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _bounds(field: FieldInfo) -> Iterator[str]:
    for one in field.metadata:
        match one:
            case annotated_types.Ge(ge=bound):
                yield f"at least {bound}"
            case annotated_types.Gt(gt=bound):
                yield f"more than {bound}"
            case annotated_types.Le(le=bound):
                yield f"at most {bound}"
            case annotated_types.Lt(lt=bound):
                yield f"less than {bound}"
            case annotated_types.MaxLen(max_length=bound):
                yield f"at most {bound} long"
            case _:
                pass
