"""Images that stand in a content itself, taken out of it before it is stored: who does it is behind these protocols."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Draft


class ExtractedImages(Protocol):
    """A text with references in the place of its images, which are not kept yet."""

    @property
    def text(self) -> str:
        """Return the text."""
        ...

    def kept(self, scope: Scope, content: str) -> str:
        """Make durable the images that *content*, a part of the text, refers to, and return it.

        Its references are those to files of *scope*'s project then. Not for use in a transaction.
        """
        ...


class ImageExtractor(Protocol):
    """Keeps the images of contents as files."""

    def set_aside(self, scope: Scope, content: str, *, field: str) -> ExtractedImages:
        """Return *content* with references in the place of its images; nothing is kept yet.

        The same content in the same place gives the same references, however often.

        Raises:
            InvalidRequestError: An image is broken, too large or of a type that is not allowed, or there are too many;
                it names *field*.
        """
        ...


@dataclass(frozen=True, slots=True)
class NothingAside:
    """A text without images."""

    text: str

    def kept(self, scope: Scope, content: str) -> str:
        """Return *content* as it is."""
        del scope
        return content


class NoLifting:
    """Leaves images where they are."""

    def set_aside(self, scope: Scope, content: str, *, field: str) -> NothingAside:
        """Return *content* as it is."""
        del scope, field
        return NothingAside(content)


def lifted_text(lifting: ImageExtractor, scope: Scope, content: str, *, field: str) -> str:
    """Return *content* with references in the place of its images, which are durable then; else as it is.

    Not for use in a transaction.

    Raises:
        InvalidRequestError: As `ImageExtractor.set_aside`.
    """
    aside = lifting.set_aside(scope, content, field=field)
    return aside.kept(scope, aside.text)


def lifted_draft(lifting: ImageExtractor, scope: Scope, draft: Draft) -> Draft:
    """Return *draft* with its images as files of the project that the memory is to live in."""
    content = lifted_text(lifting, _place_of(scope, draft), draft.content, field="memory.content")
    return draft if content is draft.content else replace(draft, content=content)


def kept_draft(aside: ExtractedImages, scope: Scope, draft: Draft) -> Draft:
    """Return *draft*, of a part of the text, with its images likewise."""
    content = aside.kept(_place_of(scope, draft), draft.content)
    return draft if content is draft.content else replace(draft, content=content)


def _place_of(scope: Scope, draft: Draft) -> Scope:
    return scope if draft.project_id is None else replace(scope, project_id=draft.project_id)
