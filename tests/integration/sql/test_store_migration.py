"""Moving a store between databases: every row of every table, whatever happens meanwhile, and back."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsvc.domain.errors import MoveRefusedError, StoreMovedError
from memsvc.engine.runtime.leader_lease import LeaderElection
from memsvc.ports.operations import MoveChanges, MovePhase, MoveTarget
from memsvc.testing import factories
from memsvc.testing.store_harness import Clock, insert, revise
from memsvc_backends.sql.store_migration import row_copy, table_rows
from memsvc_backends.sql.store_migration.migration_target import EMBEDDED
from memsvc_backends.sql.store_migration.table_rows import MOVED, NOT_MOVED, Digest
from memsvc_backends.sql.tables import memory_keywords, metadata
from tests.integration.sql.migration_support import CHANGES, TABLES, database_of, dump, move, opened, put
from tests.support.postgres_server import down, emptied, schema

CHANGE = st.tuples(st.integers(0, 40), st.sampled_from(CHANGES), st.sampled_from(TABLES))


def test_every_table_is_moved_or_said_to_stay() -> None:
    """A table that is added later is moved, too, unless it is named; and has a key, by which changes are noted."""
    assert {table.name for table in MOVED} | NOT_MOVED == set(metadata.tables)
    assert all(list(table.primary_key) for table in MOVED)


@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(changes=st.lists(CHANGE, max_size=40))
def test_what_changes_while_it_is_moved_arrives(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, object, sa.Table]]
) -> None:
    """Whatever rows are put, changed, renamed and deleted between the steps, the target has what the source has."""
    folder = tmp_path_factory.mktemp("moving")
    with opened(folder) as source, emptied("moving") as url:
        for table in TABLES:
            for _ in range(3):
                put(source, table)
        for step, progress in enumerate(source.moves.run(MoveTarget(url), settle=lambda: None)):
            if progress.phase is MovePhase.DONE:
                break
            for at, work, table in changes:
                if at == step:
                    work(source, table)  # type: ignore[operator]

        with opened(folder, url) as target:
            target.moves.require_here()
            assert dump(target) == dump(source)


def test_a_lease_of_a_moved_store_ends_with_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is not released, as the store takes no writes; that is no error, and has no traceback."""
    with opened(tmp_path) as source, emptied("moving") as url:
        with caplog.at_level("INFO", "memsvc"), LeaderElection(source.leases, Clock(), lambda: "the mover").lead():
            move(source, url)

    told = [(one.levelname, one.getMessage(), one.exc_info) for one in caplog.records if "lease" in one.getMessage()]
    assert told == [("INFO", "the maintenance lease was not released, since the store was moved", None)]


def test_there_and_back_every_byte_is_the_same(tmp_path: Path) -> None:
    """To PostgreSQL, on there, and back into the same data directory, whose older state is replaced."""
    with schema() as url:
        with opened(tmp_path) as source:
            for table in TABLES:
                for _ in range(70):
                    put(source, table)
            before = dump(source)
            *_, done = move(source, url)
            assert {one.name: one.rows for one in done.tables} == {name: len(rows) for name, rows in before.items()}
            assert all(len(one.digest) == 32 for one in done.tables)
        with opened(tmp_path, url) as there:
            assert dump(there) == before
            put(there, TABLES[0])
            later = dump(there)
            *_, back = move(there)
            assert back.place == EMBEDDED
            with pytest.raises(StoreMovedError, match="moved to another store"):
                put(there, TABLES[0])
        with opened(tmp_path) as again:
            again.moves.require_here()
            assert dump(again) == later
            put(again, TABLES[0])


def test_numbers_that_one_database_keeps_otherwise(tmp_path: Path) -> None:
    """SQLite makes a zero of a negative one; the largest, the smallest and long fractions are the same everywhere."""
    numbers = (-0.0, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, 1e22, 2.0**63)
    with schema() as url, opened(tmp_path, url) as source:
        with database_of(source).write_transaction() as connection:
            for term, weight in enumerate(numbers):
                connection.execute(sa.insert(memory_keywords).values(owner="o", term=f"{term}", row=1, weight=weight))
        move(source)
        with opened(tmp_path) as target:
            target.moves.require_here()
            assert dump(target) == dump(source)


def test_a_moved_store_takes_no_writes_and_tells_where_it_is(tmp_path: Path) -> None:
    """The database itself refuses; reads go on; an opened one says so, without the password."""
    with schema() as url, opened(tmp_path) as source:
        [kept] = insert(source, factories.memory("kept"))
        move(source, url)
        for attempt in (lambda: insert(source, factories.memory("late")), lambda: revise(source, kept, title="T")):
            with pytest.raises(StoreMovedError, match="moved to another store"):
                attempt()
        assert source.copies.counts()["memories"] == 1
        with opened(tmp_path) as again, pytest.raises(StoreMovedError, match="--undo"):
            again.moves.require_here()


@pytest.mark.parametrize("stop", [1, 20, -3])
def test_a_move_that_broke_off_goes_on_where_it_was(tmp_path: Path, stop: int) -> None:
    """After the process died at any step; what was written since, and was not noted by anybody, arrives, too."""
    with schema() as url:
        with ExitStack() as stack:
            source = stack.enter_context(opened(tmp_path))
            for table in TABLES:
                put(source, table)
            steps = source.moves.run(MoveTarget(url), settle=lambda: None)
            for step in steps:
                stop -= stop > 0
                if stop == 0 or (stop < 0 and step.phase.value == "VERIFYING"):
                    break
            steps.close()
        with opened(tmp_path, url) as half, pytest.raises(StoreMovedError, match="has not ended"):
            half.moves.require_here()
        with opened(tmp_path) as source:
            source.moves.require_here()
            for table in TABLES:
                put(source, table)
            checked = source.moves.check(MoveTarget(url))
            assert "goes on where it was" in checked.note
            move(source, url)
            with opened(tmp_path, url) as target:
                target.moves.require_here()
                assert dump(target) == dump(source)


def test_a_crash_between_the_two_last_commits_is_mended_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes writes in between; then the target does."""
    from memsvc_backends.sql.store_migration.migrator import MigrationRun  # noqa: PLC0415 - to break off inside

    with schema() as url, opened(tmp_path) as source:
        put(source, TABLES[0])
        with monkeypatch.context() as patched:
            patched.setattr(MigrationRun, "_finish", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                move(source, url)
        with opened(tmp_path, url) as target:
            for store in (source, target):
                with pytest.raises(StoreMovedError):
                    store.moves.require_here()
            [done] = move(source, url)
            assert done.phase is MovePhase.DONE
            target.moves.require_here()
            assert dump(target) == dump(source)


def test_aborting_leaves_nothing(tmp_path: Path) -> None:
    """No table, no trigger, on either side; afterwards it can be moved."""
    with schema() as url, opened(tmp_path) as source:
        put(source, TABLES[0])
        objects = _objects(source)
        steps = source.moves.run(MoveTarget(url), settle=lambda: None)
        next(steps)
        steps.close()
        assert _objects(source) != objects
        assert source.moves.abort(MoveTarget(url)).phase is MovePhase.ABORTED

        assert _objects(source) == objects
        with opened(tmp_path, url) as target:
            assert _objects(target) >= set(metadata.tables)
            target.moves.require_here()
            assert sum(map(len, dump(target).values())) == 1
        assert move(source, url)[-1].phase is MovePhase.DONE


def test_undoing_opens_the_source_and_closes_the_target(tmp_path: Path) -> None:
    """When nothing was stored at the target since; it can be moved there once more afterwards."""
    with schema() as url, opened(tmp_path) as source:
        insert(source, factories.memory("kept"))
        move(source, url)
        source.moves.undo(MoveTarget(url), changes=MoveChanges.KEEP)

        source.moves.require_here()
        insert(source, factories.memory("written after"))
        with opened(tmp_path, url) as target:
            with pytest.raises(StoreMovedError):
                target.moves.require_here()
            with pytest.raises(StoreMovedError):
                insert(target, factories.memory("not here"))
        move(source, url)
        with opened(tmp_path, url) as target:
            assert dump(target) == dump(source)


def test_undoing_does_not_lose_what_was_stored_since_unless_told_to(tmp_path: Path) -> None:
    """Then the store has another name, so that cursors of the other one are not taken for its own."""
    with schema() as url, opened(tmp_path) as source:
        identity = source.changes.identity
        move(source, url)
        with opened(tmp_path, url) as target:
            insert(target, factories.memory("stored there"))
        with pytest.raises(MoveRefusedError, match=r"memories.*--discard-changes"):
            source.moves.undo(MoveTarget(url), changes=MoveChanges.KEEP)
        source.moves.undo(MoveTarget(url), changes=MoveChanges.DISCARD)

        with opened(tmp_path) as again:
            again.moves.require_here()
            assert again.changes.identity != identity
            move(again, url)


def test_reads_at_the_target_are_no_changes(tmp_path: Path) -> None:
    """Access counts and times are lost with the way back; whatever a memory says is not, with or without them."""
    with schema() as url, opened(tmp_path) as source:
        identity = source.changes.identity
        [read, edited] = insert(source, factories.memory("read"), factories.memory("edited 海港"))
        move(source, url)
        with opened(tmp_path, url) as target:
            with target.transaction() as transaction:
                transaction.add_accesses({read.id: (3, factories.NOW)})
        source.moves.undo(MoveTarget(url), changes=MoveChanges.KEEP)
        source.moves.require_here()
        assert source.changes.identity == identity

        move(source, url)
        with opened(tmp_path, url) as target:
            with target.transaction() as transaction:
                transaction.add_accesses({edited.id: (1, Clock()())})
            revise(target, edited, title="T")
        with pytest.raises(MoveRefusedError, match=r"stored since: .*memories.*--discard-changes"):
            source.moves.undo(MoveTarget(url), changes=MoveChanges.KEEP)


def test_what_cannot_take_the_store_is_refused_with_advice(tmp_path: Path) -> None:
    """Not reachable, not empty, not allowed, the store itself: nothing is changed, and no password is told."""
    with schema() as url, opened(tmp_path / "a") as source, opened(tmp_path / "b", url) as other:
        put(source, TABLES[0])
        objects = _objects(source)
        assert "empty" in _refusal(source, url, fill=other)
        assert "store itself" in _refusal(other, url)
        assert "embedded one already" in _refusal(source, "")
        assert "must be like" in _refusal(source, "mysql://u:tellme@h/d")
        assert "cannot be reached" in _refusal(source, "postgresql://u:tellme@127.0.0.1:1/d")
        assert "no such user or database" in _refusal(source, url.replace("/postgres?", "/nowhere?"))
        assert _objects(source) == objects


def test_a_target_without_rights_is_refused_with_the_words_that_grant_them(tmp_path: Path) -> None:
    """As its owner would say them."""
    with schema() as url, opened(tmp_path) as source:
        name = "reader_of_nothing"
        database = opened(tmp_path / "x", url)
        with database as owner, database_of(owner).maintenance_connection() as connection:
            connection.exec_driver_sql(f"DROP ROLE IF EXISTS {name}")
            connection.exec_driver_sql(f"CREATE ROLE {name} LOGIN")
        with schema() as empty:
            said = _refusal(source, empty.replace("postgres:@", f"{name}:@"))
        assert "GRANT CREATE, USAGE" in said


def test_a_target_that_goes_away_costs_nothing(tmp_path: Path) -> None:
    """The source goes on; when the target is back, so does the move."""
    from memsvc.domain.errors import BackendUnavailableError  # noqa: PLC0415 - here alone

    with schema() as url, opened(tmp_path) as source:
        for table in TABLES:
            put(source, table)
        steps = source.moves.run(MoveTarget(url), settle=lambda: None)
        next(steps)
        with down():
            with pytest.raises(BackendUnavailableError):
                list(steps)
            insert(source, factories.memory("meanwhile"))
        move(source, url)
        with opened(tmp_path, url) as target:
            assert dump(target) == dump(source)


def test_a_row_that_differs_is_found(tmp_path: Path) -> None:
    """Somebody writes to the target: the source is not left."""
    with schema() as url, opened(tmp_path) as source:
        put(source, TABLES[0])
        with pytest.raises(MoveRefusedError, match="does not hold what the source does"):
            for step in source.moves.run(MoveTarget(url), settle=lambda: None):
                if step.phase is MovePhase.FOLLOWING and step.note == "changes made during the copy":
                    with opened(tmp_path, url) as target:
                        put(target, TABLES[1])
        source.moves.require_here()
        put(source, TABLES[0])


@given(rows=st.lists(st.tuples(st.integers(), st.text(), st.binary(), st.floats(allow_nan=False)), unique=True))
@settings(max_examples=30, deadline=None)
def test_a_digest_does_not_depend_on_the_order_and_rows_can_be_taken_out(rows: list[table_rows.Row]) -> None:
    """So it is kept while rows change, and compared without sorting."""
    one, other = Digest(), Digest()
    one.add(rows)
    other.add([*reversed(rows), ("more",)])
    assert one.to_table("t") != other.to_table("t")
    other.remove([("more",)])
    assert one.to_table("t") == other.to_table("t")
    row_copy.compare({"t": one}, {"t": other})


def _refusal(source: object, url: str, *, fill: object = None) -> str:
    if fill is not None:
        put(fill, TABLES[0])  # type: ignore[arg-type]
    for attempt in (lambda: source.moves.check(MoveTarget(url)), lambda: move(source, url)):  # type: ignore[attr-defined,arg-type]
        with pytest.raises(MoveRefusedError) as caught:
            attempt()
        assert "tellme" not in str(caught.value)
        assert "tellme" not in repr(MoveTarget(url))
    return str(caught.value)


def _objects(store: object) -> set[str]:
    with database_of(store).read_connection() as connection:  # type: ignore[arg-type]
        if connection.dialect.name == "postgresql":
            return set(sa.inspect(connection).get_table_names())
        return set(connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars())
