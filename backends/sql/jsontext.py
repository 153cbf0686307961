"""JSON as the columns hold it: compact, and readable in every alphabet."""

from __future__ import annotations

import json

json_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Return a value as JSON; one encoder for all takes half the time of `json.dumps`, which makes one for each."""
