"""What all groups of settings have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SettingsGroup(BaseModel):
    """A group of settings; a name that it does not know stops the start."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
