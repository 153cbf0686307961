"""Secrets that were replaced, on their way out."""

from __future__ import annotations

from collections.abc import Iterable

from memsvc.domain.write_requests import Redaction
from memsvc.v1 import types_pb2 as types


def redactions_to_proto(redactions: Iterable[Redaction]) -> list[types.Redaction]:
    """Return which secrets were replaced."""
    return [types.Redaction(kind=redaction.kind, count=redaction.count) for redaction in redactions]
