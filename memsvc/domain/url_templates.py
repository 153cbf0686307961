"""Where files are reached, as a template says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import Formatter
from urllib.parse import quote

from memsvc.domain.files import File

_DOTS = re.compile(r"\.{1,2}")

PLACES = frozenset({"category", "id", "name", "sha256", "user_id", "project_id", "tenant_id"})
"""What a template may name in braces."""


@dataclass(frozen=True, slots=True)
class UrlTemplates:
    """How URLs of files are made; an empty template makes none."""

    download: str = ""
    preview: str = ""


def fault_of_template(template: str) -> str:
    """Return what is wrong with a template, the empty string when nothing is."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        return f"is no template: {error}"
    names = [name for _, name, _, _ in parts if name is not None]
    if any(spec or conversion for _, _, spec, conversion in parts):
        return "must name its places without a format, as in {id}"
    if unknown := sorted(set(names) - PLACES):
        return f"names {', '.join(map(repr, unknown))}; there are {', '.join(sorted(PLACES))}"
    if template and not {"id", "sha256"} & set(names):
        return "must name {id} or {sha256}: else all files have one URL"
    return ""


def url_of(template: str, file: File) -> str:
    """Return the URL of a file; whatever it is called, its parts stay within theirs of the template."""
    scope = file.scope
    values = {
        "category": file.category.value,
        "id": file.id,
        "name": file.name,
        "sha256": file.sha256,
        "user_id": scope.user_id,
        "project_id": scope.project_id,
        "tenant_id": scope.tenant_id,
    }
    return template.format_map({name: _part(value) for name, value in values.items()})


def _part(value: str) -> str:
    """Return a value as one part of a path: one of dots alone would lead out of it, however it is quoted."""
    return "_" * len(value) if _DOTS.fullmatch(value) else quote(value, safe="")
