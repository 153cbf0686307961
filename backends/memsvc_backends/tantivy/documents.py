"""Entries as Tantivy's documents."""

from __future__ import annotations

from collections.abc import Sequence

from tantivy import Document, PreTokenizedString, Token

from memsvc.domain.index_entries import Attributes, LexicalEntry
from memsvc_backends.tantivy.schema import (
    BODY,
    CONFIDENCE,
    ENTRY,
    FINGERPRINT,
    ROW,
    TERMS,
    filter_term,
    place_term,
    term_key,
)


def document_of(entry: LexicalEntry) -> Document:
    """Return the document of an entry."""
    document = Document()
    document.add_integer(ENTRY, entry.entry_id)
    _add_body(document, entry.terms)
    _add_strings(document, entry.attributes)
    _add_numbers(document, entry.attributes)
    return document


def _add_body(document: Document, terms: Sequence[str]) -> None:
    body = " ".join(terms)
    # Python splits at every character that Tantivy's tokenizer splits at, and at a few more.
    if body.split() == list(terms) and len(body) == len(term_key(body)):
        document.add_text(BODY, body)
        return
    tokens = [Token(term_key(term), position, 0, 0) for position, term in enumerate(terms)]
    document.add_pre_tokenized_text(BODY, PreTokenizedString("", tokens))


def _add_strings(document: Document, attributes: Attributes) -> None:
    add = document.add_text
    add(TERMS, place_term(attributes.owner, attributes.project_id))
    add(TERMS, filter_term("agent_id", attributes.agent_id))
    add(TERMS, filter_term("session_id", attributes.session_id))
    add(TERMS, filter_term("layer", attributes.layer))
    add(TERMS, filter_term("kind", attributes.kind))
    add(TERMS, filter_term("category", attributes.category))
    add(TERMS, filter_term("tier", attributes.tier))
    add(TERMS, filter_term("status", attributes.status))
    add(TERMS, filter_term("speaker", attributes.speaker))
    add(TERMS, filter_term("importance", attributes.importance))
    for tag in attributes.tags:
        add(TERMS, filter_term("tags", tag))
    for term in attributes.metadata:
        add(TERMS, filter_term("metadata", term))


def _add_numbers(document: Document, attributes: Attributes) -> None:
    add = document.add_integer
    add(ROW, attributes.row)
    add(FINGERPRINT, attributes.fingerprint)
    add("importance", attributes.importance)
    add("create_time", attributes.create_time)
    add("update_time", attributes.update_time)
    if attributes.event_time is not None:
        add("event_time", attributes.event_time)
    if attributes.expire_time is not None:
        add("expire_time", attributes.expire_time)
    if attributes.valid_from is not None:
        add("valid_from", attributes.valid_from)
    if attributes.valid_to is not None:
        add("valid_to", attributes.valid_to)
    document.add_float(CONFIDENCE, attributes.confidence)
