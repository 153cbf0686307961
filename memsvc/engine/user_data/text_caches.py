"""Caches of functions of texts, which an erasure must clear.

Each is a `functools.lru_cache` of a pure function in its own module: its result depends on its arguments alone, so the
cache changes no behaviour and is no hidden input. But its keys are texts of users, which an erasure must not leave in
the memory of the process. A test finds every such cache that is missing here.
"""

from __future__ import annotations

from memsvc.domain.field_rules import time_zone
from memsvc.domain.vault_layout import folder_of_id
from memsvc.engine.search.scoring import names_of_speaker
from memsvc.engine.user_data.schema import zone_name
from memsvc.text.analysis import short_spans, word_spans, word_terms
from memsvc.text.capture_rules import chinese_everyday_reason, english_everyday_reason
from memsvc.text.facts import facts_in, loose_facts_in
from memsvc.text.paraphrase import gist_of
from memsvc.text.passages import cached_terms
from memsvc.text.ranking_cues import cached_cues

TEXT_CACHES = (
    cached_cues,
    cached_terms,
    facts_in,
    loose_facts_in,
    folder_of_id,
    gist_of,
    names_of_speaker,
    short_spans,
    time_zone,
    word_spans,
    word_terms,
    chinese_everyday_reason,
    english_everyday_reason,
    zone_name,
)


def clear_text_caches() -> None:
    """Drop every cached result, and with it every text that was analysed."""
    for cached in TEXT_CACHES:
        cached.cache_clear()
