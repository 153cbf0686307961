"""JSON schemas as short as they can be: every character of them stands in the model's context."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

LEFT_OUT = frozenset({"title", "default", "$defs", "anyOf", "$ref"})
"""Titles repeat names, the texts say the defaults that matter, and nested models stand where they are used."""


class Arguments(BaseModel):
    """What a tool takes. A name that is not among its fields is refused: there is no way to say another scope."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Answer(BaseModel):
    """What a tool returns for programs. Fields that have their default are left out."""

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
