"""Images that stand in a content itself, taken out of it before it is stored: who does it is behind this protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from memsvc.domain.drafts import Draft
from memsvc.domain.scope import Scope


class Lifting(Protocol):
    """Keeps the images of contents as files."""

    def lifted(self, scope: Scope, content: str, *, field: str) -> str:
        """Return *content* with references in the place of its images, which are durable then; else as it is.

        The same content in the same place gives the same references, however often. Not for use in a transaction.

        Raises:
            InvalidRequestError: An image is broken, too large or of a type that is not allowed, or there are too many;
                it names *field*.
        """
        ...


class NoLifting:
    """Leaves images where they are."""

    def lifted(self, scope: Scope, content: str, *, field: str) -> str:
        """Return *content* as it is."""
        del scope, field
        return content


def lifted_draft(lifting: Lifting, scope: Scope, draft: Draft) -> Draft:
    """Return *draft* with its images as files of the project that the memory is to live in."""
    place = scope if draft.project_id is None else replace(scope, project_id=draft.project_id)
    content = lifting.lifted(place, draft.content, field="memory.content")
    return draft if content is draft.content else replace(draft, content=content)
