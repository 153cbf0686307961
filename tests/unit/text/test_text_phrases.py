"""The words around memories."""

from __future__ import annotations

import pytest

from memsvc.domain.context import Locale, Section
from memsvc.text.context_phrases import CLOSING, HEADINGS, OPENING, heading


@pytest.mark.parametrize("locale", list(Locale))
def test_every_text_begins_and_ends_where_tokenizers_cut(locale: Locale) -> None:
    """With a sign, and with a newline; every section has a heading of its own."""
    texts = [OPENING[locale], CLOSING, *(heading(section, locale) for section in Section)]

    assert all(text.endswith("\n") and not text[0].isspace() for text in texts)
    assert len(set(HEADINGS[locale].values())) == len(Section)
