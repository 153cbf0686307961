"""Numbers of settings have bounds: one that no clock can count is refused at the start, and not met while serving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from memsvc.bootstrap.plugins import found_backends, load_backend
from memsvc.settings import Settings

VALUES = ["inf", "nan", "1e300"]


def _numbers(group: type[BaseModel], suffix: str = "", path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every setting below a group that is a number with a fraction and has such an ending."""
    for name, field in group.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _numbers(kind, suffix, (*path, name))
        elif kind is float and name.endswith(suffix):
            yield (*path, name)


def _options() -> Iterator[tuple[type[BaseModel], tuple[str, ...]]]:
    """Yield the durations among the options of all backends, each once."""
    found = {load_backend(one.port, one.name).settings for one in found_backends()}
    for options in sorted(found, key=str):
        yield from ((options, path) for path in _numbers(options, "_seconds"))


@pytest.mark.parametrize("path", list(_numbers(Settings)), ids=".".join)
def test_a_number_without_bounds_is_refused(monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]) -> None:
    """The error names the setting."""
    for value in VALUES:
        monkeypatch.setenv("MEMSVC_" + "__".join(map(str.upper, path)), value)
        with pytest.raises(ValidationError) as refusal:
            Settings()
        assert [error["loc"] for error in refusal.value.errors()] == [path]


@pytest.mark.parametrize(("options", "path"), list(_options()))
def test_a_duration_without_bounds_is_refused(options: type[BaseModel], path: tuple[str, ...]) -> None:
    """The options of backends, too."""
    for value in VALUES:
        given: Any = value
        for name in reversed(path):
            given = {name: given}
        with pytest.raises(ValidationError) as refusal:
            options.model_validate(given)
        assert path in [error["loc"] for error in refusal.value.errors()]
