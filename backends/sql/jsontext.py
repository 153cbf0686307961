"""JSON as the columns hold it: compact, and readable in every alphabet."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

json_text = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
"""Return a value as JSON; one encoder for all takes half the time of `json.dumps`, which makes one for each."""


def json_value(text: str) -> Any:
    """Return the value of a text that `json_text` made, in half the time of `json.loads`."""
    return from_json(text)
