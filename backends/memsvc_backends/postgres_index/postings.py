"""The tables of one generation of the full text: entries, postings and words; creation, writes and reads.

Why not tsvector: `ts_rank` knows neither how rare a word is nor how long its text, and BM25 needs both. So a posting, a
word of an entry, is a row of its own, under a key of owner and word: an index alone answers which entries of an owner
hold a word, how often, and how long they are. Measured for comparison, with 100 000 entries of 50 owners on PostgreSQL
18: tsvectors of words marked with their owner, found by GIN and taken apart for BM25, take 3.5 ms for a query of rare
words and 13.9 ms for one with common words, where postings take 1.7 and 4.8 ms; they are a third of the size (82 MB
against 204 MB) and are written three times as fast (0.08 ms an entry against 0.25 ms).

Words are counted for each owner, which has its price: 100 000 entries of 30 words and 50 owners take 474 MB instead of
340 MB with counts of all owners together, and a bulk write 0.7 ms an entry instead of 0.3 ms. In return no count is
shared by writers of different owners, and no search depends on the words of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain

from psycopg import sql

from memsvc.domain.index_entries import LexicalEntry
from memsvc_backends.postgres_index.connections import Connection, lock_rows
from memsvc_backends.postgres_index.filters import DEFINITIONS, NAMES, ROW_SHIFT, TYPES, key_of, values_of, without_nul

POSTINGS, ENTRIES, WORDS = "_p", "_e", "_w"
PARTS = (POSTINGS, ENTRIES, WORDS)
"""What the names of the tables end in, in the order in which searches take them."""
ENTRY_COUNT, LENGTH_SUM = 0, 1
"""The keys under which the words' table keeps how many entries an owner has, and of how many words in all."""
SHORTEST_NEAR, LONGEST_NEAR = 4, 256
"""The words, by their length in characters, that are looked for one edit away."""
_WORDS_KNOWN = 50_000

_MAKE = (
    f"CREATE TABLE {{entries}} ({DEFINITIONS}, length integer NOT NULL, words bigint[] NOT NULL, PRIMARY KEY (entry))",
    "CREATE INDEX ON {entries} (owner_key)",
    "CREATE TABLE {postings} (list bigint NOT NULL, entry bigint NOT NULL, times int NOT NULL, length int NOT NULL)",
    "CREATE INDEX ON {postings} (list, entry) INCLUDE (times, length)",
    # The counts of common words change with nearly every write: there is room for the next count on the same page.
    (
        "CREATE TABLE {words} (key bigint PRIMARY KEY, owner_key bigint NOT NULL, word text, held bigint NOT NULL) "
        "WITH (fillfactor = 70)"
    ),
    'CREATE INDEX ON {words} (owner_key, word COLLATE "C") WHERE char_length(word) BETWEEN {shortest} AND {longest}',
    (
        'CREATE INDEX ON {words} (owner_key, reverse(word) COLLATE "C") '
        "WHERE char_length(word) BETWEEN {shortest} AND {longest}"
    ),
)
# OFFSET 0 has each of a list looked up in an index, whatever the planner takes the tables for: statistics are late.
_REMOVE_ENTRIES = (
    "DELETE FROM {entries} WHERE entry = ANY(ARRAY(SELECT e.entry FROM unnest(%s::bigint[]) AS gone(row) "
    f"CROSS JOIN LATERAL (SELECT entry FROM {{entries}} WHERE entry >= gone.row << {ROW_SHIFT} "
    f"AND entry < (gone.row + 1) << {ROW_SHIFT} OFFSET 0) AS e)) RETURNING entry, owner_key, length, words"
)
_REMOVE_POSTINGS = (
    "DELETE FROM {postings} WHERE ctid = ANY(ARRAY(SELECT p.ctid FROM unnest(%s::bigint[], %s::bigint[]) "
    "AS gone(list, entry) CROSS JOIN LATERAL (SELECT o.ctid FROM {postings} AS o "
    "WHERE o.list = gone.list AND o.entry = gone.entry OFFSET 0) AS p))"
)
_COPY_ENTRIES = "COPY {entries} ({names}, length, words) FROM STDIN (FORMAT BINARY)"
_COPY_POSTINGS = "COPY {postings} FROM STDIN (FORMAT BINARY)"
# Counts are written in the order of the keys, so that transactions do not deadlock.
_COUNT = (
    "INSERT INTO {words} AS w SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::bigint[]) "
    "ON CONFLICT (key) DO UPDATE SET held = w.held + excluded.held"
)
_FORGET = "DELETE FROM {words} WHERE key = ANY(%s::bigint[]) AND held <= 0"
Changes = Mapping[int, Sequence[LexicalEntry]]


@lru_cache(_WORDS_KNOWN)
def word_key(word: str) -> int:
    """Return the key of a word, as it is held."""
    # The smallest keys are those of the totals.
    key = key_of(word)
    return key if key not in {ENTRY_COUNT, LENGTH_SUM} else ~key


def list_key(owner_key: int, word: int) -> int:
    """Return the key of an owner's postings of a word, and of the number of the entries that hold it."""
    return owner_key ^ word


def create(connection: Connection, base: str) -> None:
    """Create the tables."""
    for words in _MAKE:
        connection.execute(_with_names(words, base))


def settle(connection: Connection, base: str) -> None:
    """Bring the planner's knowledge up to date, and let indexes alone answer."""
    for part in PARTS:
        connection.execute(sql.SQL("VACUUM ANALYZE {}").format(sql.Identifier(f"{base}{part}")))


def replace(connection: Connection, base: str, changes: Changes) -> None:
    """Replace the entries of each memory, in one transaction."""
    counts = _Counts()
    with connection.transaction():
        lock_rows(connection, base, changes)
        _remove(connection, base, list(changes), counts)
        entries = list(chain.from_iterable(changes.values()))
        if entries:
            _add(connection, base, entries, counts)
        # Last, since other processes wait for the rows of common words until this is committed.
        counts.write(connection, base)


class _Counts:
    """Changes of the document frequencies of owners."""

    def __init__(self) -> None:
        self._changes: Counter[int] = Counter()
        self._owners: dict[int, int] = {}
        self._words: dict[int, str | None] = {}

    def add(self, owner_key: int, words: Mapping[int, str], length: int) -> None:
        """Count an entry in."""
        self._words.update((list_key(owner_key, key), word) for key, word in words.items())
        self._count(owner_key, words, length, 1)

    def remove(self, owner_key: int, words: Iterable[int], length: int) -> None:
        """Count an entry out."""
        self._count(owner_key, words, length, -1)

    def _count(self, owner_key: int, words: Iterable[int], length: int, by: int) -> None:
        totals = {list_key(owner_key, ENTRY_COUNT): by, list_key(owner_key, LENGTH_SUM): by * length}
        self._words.update(dict.fromkeys(totals))
        for key, number in (totals | dict.fromkeys((list_key(owner_key, word) for word in words), by)).items():
            self._owners[key] = owner_key
            self._changes[key] += number

    def write(self, connection: Connection, base: str) -> None:
        """Write the counts to the table, and delete the words that are no longer used."""
        keys = sorted(key for key, number in self._changes.items() if number)
        if not keys:
            return
        owners, numbers = [self._owners[key] for key in keys], [self._changes[key] for key in keys]
        # A word that is only counted out is there already, and its text stays.
        texts = [self._words.get(key, "") for key in keys]
        connection.execute(_with_names(_COUNT, base), (keys, owners, texts, numbers))
        if gone := [key for key, number in zip(keys, numbers, strict=True) if number < 0]:
            connection.execute(_with_names(_FORGET, base), (gone,))


def _remove(connection: Connection, base: str, rows: list[int], counts: _Counts) -> None:
    gone = connection.execute(_with_names(_REMOVE_ENTRIES, base), (rows,), binary=True).fetchall()
    lists: list[int] = []
    entries: list[int] = []
    for entry, owner_key, length, words in gone:
        counts.remove(owner_key, words, length)
        lists.extend(list_key(owner_key, word) for word in words)
        entries.extend([entry] * len(words))
    if lists:
        connection.execute(_with_names(_REMOVE_POSTINGS, base), (lists, entries))


def _add(connection: Connection, base: str, entries: Sequence[LexicalEntry], counts: _Counts) -> None:
    postings: list[tuple[int, int, int, int]] = []
    with connection.cursor().copy(_with_names(_COPY_ENTRIES, base)) as copy:
        copy.set_types((*TYPES, "integer", "bigint[]"))
        for entry in entries:
            length = len(entry.terms)
            times = Counter(map(without_nul, entry.terms))
            words = {word_key(word): word for word in times}
            owner_key = key_of(without_nul(entry.attributes.owner))
            counts.add(owner_key, words, length)
            copy.write_row((*values_of(entry.entry_id, entry.attributes), length, list(words)))
            postings.extend(
                (list_key(owner_key, key), entry.entry_id, times[word], length) for key, word in words.items()
            )
    # In the order of the index, neighbours are written together.
    postings.sort()
    with connection.cursor().copy(_with_names(_COPY_POSTINGS, base)) as copy:
        copy.set_types(("bigint", "bigint", "integer", "integer"))
        for posting in postings:
            copy.write_row(posting)


@lru_cache(256)
def _with_names(words: str, base: str) -> sql.Composed:
    return sql.SQL(words).format(
        entries=sql.Identifier(f"{base}{ENTRIES}"),
        postings=sql.Identifier(f"{base}{POSTINGS}"),
        words=sql.Identifier(f"{base}{WORDS}"),
        names=sql.SQL(", ").join(map(sql.Identifier, NAMES)),
        shortest=sql.Literal(SHORTEST_NEAR),
        longest=sql.Literal(LONGEST_NEAR),
    )
