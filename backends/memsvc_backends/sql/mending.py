"""Mending what is wrong with what is stored."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from memsvc.domain.conflicts import Conflict
from memsvc.domain.diagnostics import Part
from memsvc.domain.index_entries import Chunk
from memsvc.domain.memory import Memory
from memsvc_backends.sql.dialect import is_listed, list_parameter
from memsvc_backends.sql.integrity import IS_DANGLING, PART_TABLES, is_known, lost_rows, row_of_part
from memsvc_backends.sql.row_writer import rewrite_parts
from memsvc_backends.sql.tables import conflicts, messages
from memsvc_backends.sql.write_session import WriteSession


class SqlIntegrityWrites(WriteSession):
    """`memsvc.ports.operations.IntegrityWrites`, on the connection of a transaction."""

    def reenter(self, memory: Memory, chunks: Sequence[Chunk]) -> None:
        """Write anew what is kept beside a memory."""
        rewrite_parts(self._connection, memory, chunks)

    def discard_remains(self, part: Part, rows: Sequence[int]) -> int:
        """Remove what is left of memories that are gone."""
        row = row_of_part(part)
        gone = sa.and_(is_listed(row, "wanted"), ~is_known(part))
        wanted = {"wanted": list_parameter(rows)}
        found = len(self._connection.execute(sa.select(row).distinct().where(gone), wanted).all())
        self._connection.execute(sa.delete(PART_TABLES[part]).where(gone), wanted)
        return found

    def discard_messages(self, rows: Sequence[int]) -> int:
        """Remove messages that lack something."""
        lost = list(self._connection.execute(lost_rows(rows)).scalars())
        if lost:
            wanted = is_listed(messages.c.row, "wanted")
            self._connection.execute(sa.delete(messages).where(wanted), {"wanted": list_parameter(lost)})
        return len(lost)

    def discard_conflicts(self, conflicts_: Sequence[Conflict]) -> int:
        """Remove conflicts that lack a memory."""
        names = ("owner", "project_id", "id")
        same = [conflicts.c[name] == sa.bindparam(f"at_{name}") for name in names]
        return sum(
            self._connection.execute(
                sa.delete(conflicts).where(*same, IS_DANGLING), {f"at_{name}": getattr(one, name) for name in names}
            ).rowcount
            for one in conflicts_
        )
