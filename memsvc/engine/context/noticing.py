"""What about a context deserves attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memsvc.domain.context import ALMOST_FULL, NEARLY, NEARLY_FULL, Locale, Notice, Section, Severity
from memsvc.text.context_phrases import HEADINGS, message


class ContextWarnings:
    """Makes warnings in one language."""

    def __init__(self, locale: Locale) -> None:
        self._locale = locale

    def too_small(self, needed: int, total: int) -> Notice:
        """Say that nothing fits."""
        return self._notice(Severity.CRITICAL, "BUDGET_TOO_SMALL", needed, total)

    def incomplete(self, detail: str) -> Notice:
        """Say that the search did not find all that it might have."""
        said = message("RETRIEVAL_INCOMPLETE", self._locale, detail=detail)
        return Notice(Severity.WARNING, "RETRIEVAL_INCOMPLETE", said)

    def late(self, sections: Sequence[Section]) -> Notice:
        """Say that there was no time for some sections."""
        names = ", ".join(HEADINGS[self._locale][section] for section in Section if section in sections)
        return Notice(Severity.WARNING, "DEADLINE", message("DEADLINE", self._locale, detail=names))

    def count(self, code: str, value: int, limit: int) -> Iterator[Notice]:
        """Say that there are nearly, or more than, as many memories as a tier is meant for."""
        if value >= NEARLY * limit:
            yield self._notice(Severity.WARNING if value > limit else Severity.INFO, code, value, limit)

    def session(self, tokens: int, limit: int) -> Iterator[Notice]:
        """Say that a session is nearly full."""
        if limit > 0 and tokens > NEARLY_FULL * limit:
            severity = Severity.CRITICAL if tokens > ALMOST_FULL * limit else Severity.WARNING
            yield self._notice(severity, "SESSION_NEARLY_FULL", tokens, limit)

    def _notice(self, severity: Severity, code: str, value: int, limit: int) -> Notice:
        return Notice(severity, code, message(code, self._locale, value=value, limit=limit), value, limit)
