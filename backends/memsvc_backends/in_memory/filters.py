"""The reach as Python: is it met?"""

from __future__ import annotations

from memsvc.domain.filter_evaluation import matches
from memsvc.domain.index_entries import Attributes
from memsvc.domain.scope import Reach

__all__ = ["matches", "within"]


def within(reach: Reach, attributes: Attributes) -> bool:
    """Return whether *attributes* lie in *reach*."""
    return attributes.owner == reach.owner and attributes.project_id in reach.project_ids
