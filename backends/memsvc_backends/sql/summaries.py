"""Summaries by what they sum up."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from memsvc.domain.memory import Memory
from memsvc_backends.sql.dialect import cached_statement, execute
from memsvc_backends.sql.tables import IS_SUMMARISED, IS_SUMMARY, memories, messages, revisions
from memsvc_backends.sql.write_session import WriteSession


class SqlSummaryWrites(WriteSession):
    """`memsvc.ports.features.SummaryWrites`."""

    def summaries_of(self, memory: Memory) -> list[str]:
        """Return the ids of the summaries that are made of a memory."""
        place = {"owner": memory.scope.owner, "source": memory.id, "at_row": memory.row}
        return list(execute(self._connection, _select_summaries(), place).scalars())

    def forget_revisions(self, memory: Memory) -> None:
        """Remove the earlier revisions of a memory."""
        earlier = (revisions.c.row == memory.row, revisions.c.revision < memory.revision)
        execute(self._connection, sa.delete(revisions).where(*earlier))


@cached_statement
def _select_summaries() -> sa.Select[Any]:
    source: sa.BindParameter[str] = sa.bindparam("source")
    own = (memories.c.owner == sa.bindparam("owner"), IS_SUMMARY)
    is_derived = memories.c.derived_from_ids.contains(source)
    # The messages of each summary, and not all messages from which something was extracted.
    summed_up = sa.select(messages.c.row).where(messages.c.summary_id == memories.c.id, IS_SUMMARISED)
    has_extracted = sa.exists(summed_up.where(messages.c.extracted.contains(source)))
    own_message = sa.select(messages.c.summary_id).where(messages.c.row == sa.bindparam("at_row"), IS_SUMMARISED)
    is_source = sa.or_(is_derived, has_extracted, memories.c.id.in_(own_message))
    return sa.select(memories.c.id).where(*own, is_source).order_by(memories.c.row)
