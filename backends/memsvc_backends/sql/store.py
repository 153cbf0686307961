"""The store: its parts, and its opening and closing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import cast

import sqlalchemy as sa

from memsvc.domain.errors import BackendUnavailableError, StoreMissingError, start_wording
from memsvc.ports.change_feed import ChangeFeed, EmbeddingCache, IndexFeed, TokenStore
from memsvc.ports.features import (
    CallRates,
    CheckpointReads,
    ConflictReads,
    FileReads,
    KeyReads,
    QuotaReads,
    ReminderReads,
    SessionReads,
    StatementReads,
    UseReads,
    VaultManifest,
)
from memsvc.ports.metadata import MetadataStore, OwnerLock, Record, Transaction, UserReads
from memsvc.ports.operations import (
    ErasureReads,
    IntegrityReads,
    Leases,
    LogReads,
    StoreCopies,
    StoreMoves,
    UpkeepReads,
    WebhookQueue,
)
from memsvc.ports.plugin import BackendContext, BackendSpec
from memsvc_backends.sql.api_keys import SqlCallRates, SqlKeyReads, SqlQuotaReads
from memsvc_backends.sql.backup import SqlStoreCopies
from memsvc_backends.sql.conflicts import SqlConflictReads, SqlStatementReads
from memsvc_backends.sql.database import BACKEND, BegunTransaction, ClockDifference, Database, Driver
from memsvc_backends.sql.dialect import database_clock, execute
from memsvc_backends.sql.erasure import SqlErasureReads
from memsvc_backends.sql.files import SqlFileReads
from memsvc_backends.sql.history import SqlCheckpoints
from memsvc_backends.sql.index_feed import CAPACITY, NewRecordBuffer, SqlEmbeddingCache, SqlIndexFeed, SqlTokenStore
from memsvc_backends.sql.integrity import SqlIntegrityReads
from memsvc_backends.sql.maintenance import SqlLeases, SqlLogs, SqlUpkeepReads
from memsvc_backends.sql.migrate import bring_up_to_date
from memsvc_backends.sql.outbox import SqlChangeFeed, SqlWebhookQueue
from memsvc_backends.sql.postgres import PostgresDriver
from memsvc_backends.sql.ranking_columns import RankingPreloader
from memsvc_backends.sql.reads import SqlMemoryReads
from memsvc_backends.sql.reminders import SqlReminderReads
from memsvc_backends.sql.sessions import SqlSessionReads
from memsvc_backends.sql.settings import SqlSettings
from memsvc_backends.sql.sqlite import SqliteDriver
from memsvc_backends.sql.store_migration.migrator import SqlStoreMoves
from memsvc_backends.sql.transaction import SqlTransaction
from memsvc_backends.sql.use_reports import SqlUseReads
from memsvc_backends.sql.user_export import SqlUserReads
from memsvc_backends.sql.vault import SqlVaultManifest
from memsvc_backends.sql.write_session import SHARDS, BlockAllocator, NumberAllocator, QuotaCache, UsageLedger

DEFAULT_NAME = "memsvc.db"
PATH_BYTES = 504
"""Longest path of a file that SQLite opens: with the suffix of its log it has 512 bytes."""
MEASUREMENTS = 5
"""Comparisons of the clocks when a shared store is opened."""


class SqlMetadataStore:
    """`memsvc.ports.metadata.MetadataStore`."""

    def __init__(self, database: Database, clocks: ClockDifference, moves: StoreMoves) -> None:
        """Work on a database that is up to date; *clocks* compares the clocks, *moves* is what moves it."""
        self._database = database
        self._clocks = clocks
        self._memories = SqlMemoryReads(database)
        self._preloading = RankingPreloader(database, self._memories.ranking_columns)
        self._sessions = SqlSessionReads(database)
        self._files = SqlFileReads(database)
        self._fresh = NewRecordBuffer(0 if database.driver.is_shared else CAPACITY)
        self._feed = SqlIndexFeed(database, self._fresh)
        self._changes = SqlChangeFeed(database)
        self._checkpoints = SqlCheckpoints(database)
        self._embeddings = SqlEmbeddingCache(database)
        self._tokens = SqlTokenStore(database)
        self._conflicts = SqlConflictReads(database)
        self._statements = SqlStatementReads(database)
        self._reminders = SqlReminderReads(database)
        self._uses = SqlUseReads(database)
        self._integrity = SqlIntegrityReads(database)
        self._logs = SqlLogs(database)
        self._upkeep = SqlUpkeepReads(database)
        self._leases = SqlLeases(database, self._clocks)
        self._webhooks = SqlWebhookQueue(database, clocks)
        self._users = SqlUserReads(database)
        self._erasures = SqlErasureReads(database, self._memories.ranking_columns.clear)
        self._keys = SqlKeyReads(database)
        self._quotas = SqlQuotaReads(database)
        self._call_rates = SqlCallRates(database)
        self._known_quotas = QuotaCache()
        self._copies = SqlStoreCopies(database, DEFAULT_NAME)
        self._vault = SqlVaultManifest(database)
        self._moves = moves

    @property
    def is_shared(self) -> bool:
        """Return whether the database is a server's."""
        return self._database.driver.is_shared

    @property
    def memories(self) -> SqlMemoryReads:
        """Read memories."""
        return self._memories

    @property
    def sessions(self) -> SessionReads:
        """Read sessions."""
        return self._sessions

    @property
    def files(self) -> FileReads:
        """Read what is known of files."""
        return self._files

    @property
    def feed(self) -> IndexFeed:
        """Read what is to be indexed."""
        return self._feed

    @property
    def changes(self) -> ChangeFeed:
        """Read the changes of memories."""
        return self._changes

    @property
    def embeddings(self) -> EmbeddingCache:
        """Keep embeddings."""
        return self._embeddings

    @property
    def tokens(self) -> TokenStore:
        """Keep token vectors."""
        return self._tokens

    @property
    def conflicts(self) -> ConflictReads:
        """Read conflicts."""
        return self._conflicts

    @property
    def reminders(self) -> ReminderReads:
        """Read reminders."""
        return self._reminders

    @property
    def uses(self) -> UseReads:
        """Read reports of use."""
        return self._uses

    @property
    def checkpoints(self) -> CheckpointReads:
        """Read checkpoints."""
        return self._checkpoints

    @property
    def integrity(self) -> IntegrityReads:
        """Read what is wrong."""
        return self._integrity

    @property
    def logs(self) -> LogReads:
        """Read daily logs."""
        return self._logs

    @property
    def statements(self) -> StatementReads:
        """Read statements."""
        return self._statements

    @property
    def upkeep(self) -> UpkeepReads:
        """Find what upkeep is due."""
        return self._upkeep

    @property
    def leases(self) -> Leases:
        """Take and release leases."""
        return self._leases

    @property
    def webhooks(self) -> WebhookQueue:
        """Queue changes for webhooks."""
        return self._webhooks

    @property
    def users(self) -> UserReads:
        """Read all of a user."""
        return self._users

    @property
    def erasures(self) -> ErasureReads:
        """Look for what is left of users."""
        return self._erasures

    @property
    def api_keys(self) -> KeyReads:
        """Read API keys."""
        return self._keys

    @property
    def quotas(self) -> QuotaReads:
        """Read quotas."""
        return self._quotas

    @property
    def call_rates(self) -> CallRates:
        """Count calls."""
        return self._call_rates

    @property
    def copies(self) -> StoreCopies:
        """Copy the store as a whole."""
        return self._copies

    @property
    def moves(self) -> StoreMoves:
        """Move the store to another database."""
        return self._moves

    @property
    def vault(self) -> VaultManifest:
        """Keep what the vault knows."""
        return self._vault

    @contextmanager
    def transaction(
        self,
        *,
        owners: AbstractSet[str] | None = None,
        works: int = 1,
        is_patient: bool = True,
        lock: OwnerLock | None = None,
    ) -> Iterator[Transaction]:
        """Open a transaction; others of this process, and those of the same owners, wait until it ends."""
        begun = cast("BegunTransaction | None", lock)
        changed: AbstractSet[int] = frozenset()
        counted: Mapping[int, int] = {}
        inserted: Sequence[Record] = ()
        try:
            with self._database.write_transaction(owners=owners, is_patient=is_patient, lock=begun) as connection:
                numbering = self._numbering(connection, works)
                ledger = UsageLedger(connection, self._known_quotas, SHARDS if self.is_shared else 1)
                transaction = SqlTransaction(connection, self._clocks, numbering, owners, ledger)
                changed, counted, inserted = (
                    transaction.changed_rows,
                    transaction.access_counts,
                    transaction.inserted_records,
                )
                yield transaction
                transaction.finish()
                version = self._memories.ranking_columns.version
                # Before the commit: after it the indexer may ask for them at once.
                self._fresh.keep(inserted)
                self._fresh.forget({*changed, *counted})
        except BaseException:
            self._fresh.forget(record.memory.row for record in inserted)
            # Though the commit failed, it may have happened.
            self._memories.forget({*changed, *counted})
            raise
        if ledger.has_removals:
            self._database.driver.empty_log_soon()
        self._memories.forget(changed)
        self._memories.recount(counted, version)
        self._memories.keep(inserted, version)

    def lock(self, owner: str | None, *, waited_seconds: float = 0) -> OwnerLock:
        """Wait until no other process writes for *owner*."""
        return self._database.lock(owner, waited_seconds=waited_seconds)

    def _numbering(self, connection: sa.Connection, works: int) -> NumberAllocator:
        if self._database.driver.is_shared:
            return BlockAllocator(connection, partial(self._database.take_numbers, connection), works)
        return NumberAllocator(connection)

    @property
    def preloader(self) -> RankingPreloader:
        """Return the preloader of ranking columns."""
        return self._preloading

    def storage_bytes(self) -> int:
        """Return the bytes in use."""
        with self._database.read_connection() as connection:
            return self._database.driver.storage_bytes(connection)

    def check_writes(self) -> None:
        """Return if the database takes writes, as far as is known."""
        self._database.driver.check_writes()

    def ping(self) -> None:
        """Return if the store is open and takes writes, and no damage of it was seen."""
        self._database.require_whole()
        self.check_writes()
        with self._database.read_connection() as connection:
            execute(connection, "SELECT 1")


@contextmanager
def open_store(settings: SqlSettings, context: BackendContext) -> Iterator[MetadataStore]:
    """Open the database, creating or migrating it when need be; close it on leaving.

    Raises:
        SchemaVersionError: The database is newer than this code.
        BackendUnavailableError: The database cannot be opened.
        StoreMissingError: The database is new or empty, and the data directory belongs to another one.
    """
    database = Database(_driver(settings, context), settings)
    try:
        with start_wording():
            bring_up_to_date(database, context.known_store)
            moves = SqlStoreMoves(database, settings, context.directory / DEFAULT_NAME, context.now)
            store = SqlMetadataStore(database, _compared_clocks(database, context.now), moves)
        store.preloader.start()
        try:
            yield store
        finally:
            store.preloader.stop()
    finally:
        database.close()


def _compared_clocks(database: Database, now: Callable[[], datetime]) -> ClockDifference:
    """Compare the clock of this process with that of a shared database; the shortest round trip counts most."""
    clocks = ClockDifference(now)
    if database.driver.is_shared:
        with database.read_connection() as connection:
            for _ in range(MEASUREMENTS):
                before = now()
                clocks.note(before, execute(connection, sa.select(database_clock())).scalar_one())
    return clocks


def _driver(settings: SqlSettings, context: BackendContext) -> Driver:
    if settings.url is not None:
        return PostgresDriver(settings.url.get_secret_value(), settings, context.faults)
    path = settings.path or context.directory / DEFAULT_NAME
    if (length := len(os.fsencode(path.absolute()))) > PATH_BYTES:
        problem = (
            f"has a path of {length} bytes, and SQLite takes {PATH_BYTES} at most: choose a shorter data directory"
        )
        raise BackendUnavailableError(BACKEND, problem=problem)
    if context.known_store is not None and not (path.is_file() and path.stat().st_size):
        # Before SQLite creates the file, or discards a log that belongs to the lost one.
        state = "is empty" if path.is_file() else "does not exist"
        raise StoreMissingError(f"The store {str(path)!r} {state}", str(context.known_store.record))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BackendUnavailableError(BACKEND) from error
    return SqliteDriver(path, settings)


SQL: BackendSpec[MetadataStore] = BackendSpec(settings=SqlSettings, open=open_store)
"""The entry point `sql`."""
