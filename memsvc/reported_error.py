"""The base of failures that a command reports in one line."""

from __future__ import annotations


class ReportedError(Exception):
    """A failure outside of calls; the message is a sentence that says what is wrong and what to do."""
