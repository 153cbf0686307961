"""BM25 search: document frequencies are looked up, then scores are summed over the postings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memsvc.ports.indexes import FUZZY_BOOST, FUZZY_MIN_LENGTH
from memsvc.text.bm25 import K1, B, is_one_edit, rarity
from memsvc_backends.postgres_index.connections import Connection
from memsvc_backends.postgres_index.filters import Condition, without_nul
from memsvc_backends.postgres_index.postings import (
    ENTRIES,
    ENTRY_COUNT,
    LENGTH_SUM,
    LONGEST_NEAR,
    POSTINGS,
    SHORTEST_NEAR,
    WORDS,
    list_key,
    word_key,
)

_MAX_CHARACTER = "\U0010ffff"
_COUNTS = 'SELECT key, held FROM "{words}" WHERE key = ANY(%s::bigint[])'
# An edit leaves one half of a word as it is: the first, or the second. But for two neighbours across the middle that
# changed places, and for these there is no need to search.
_NEAR = (
    'SELECT key, word FROM "{words}" WHERE char_length(word) BETWEEN {shortest} AND {longest} AND held > 0 '
    'AND owner_key = %s AND word COLLATE "C" >= %s AND word COLLATE "C" < %s AND abs(char_length(word) - %s) <= 1 '
    'UNION ALL SELECT key, word FROM "{words}" WHERE char_length(word) BETWEEN {shortest} AND {longest} AND held > 0 '
    'AND owner_key = %s AND reverse(word) COLLATE "C" >= %s AND reverse(word) COLLATE "C" < %s '
    "AND abs(char_length(word) - %s) <= 1 "
    'UNION ALL SELECT key, word FROM "{words}" WHERE key = ANY(%s::bigint[]) AND held > 0'
)
# OFFSET 0 has each list looked up in the index, whatever the planner takes the tables for: statistics are late.
_LIST = 'SELECT entry, times, length FROM "{postings}" WHERE list = q.list OFFSET 0'
_EXACT = (
    f"SELECT p.entry, sum(q.weight * p.times * {K1 + 1} / (p.times + {K1} * ({1 - B} + {B} * p.length / %s::float8))) "
    "AS score FROM unnest(%s::bigint[], %s::float8[]) AS q(list, weight) "
    f"CROSS JOIN LATERAL ({_LIST}) AS p GROUP BY p.entry"
)
_FORGIVEN = (
    "SELECT entry, sum(weight) AS score FROM (SELECT DISTINCT p.entry, q.term, q.weight "
    "FROM unnest(%s::bigint[], %s::integer[], %s::float8[]) AS q(list, term, weight) "
    f"CROSS JOIN LATERAL ({_LIST}) AS p) AS near GROUP BY entry"
)
_BOTH = "SELECT entry, sum(score) AS score FROM ({exact} UNION ALL {forgiven}) AS parts GROUP BY entry"
# The best are looked at first, and only as many as it takes. Scores are rounded: the last bits of a sum depend on the
# order of its parts, and entries of equal score come by their number.
_BEST = (
    "SELECT entry, score FROM (SELECT s.entry, s.score FROM "
    "(SELECT entry, score::float4 AS score FROM ({scores}) AS scored ORDER BY 2 DESC, 1) AS s "
    'CROSS JOIN LATERAL (SELECT 1 FROM "{entries}" AS e WHERE e.entry = s.entry AND {where} OFFSET 0) AS e LIMIT %s) '
    "AS found ORDER BY score DESC, entry"
)


@dataclass(slots=True)
class _WantedPostings:
    """The postings to sum up.

    Attributes:
        weights: The weight of each list of a word that is held.
        near: Lists of words one edit away from a term, the number of the term, and its weight.
    """

    weights: dict[int, float] = field(default_factory=dict)
    near: list[tuple[int, int, float]] = field(default_factory=list)


def search(
    connection: Connection, base: str, terms: Sequence[str], where: Condition, *, limit: int
) -> list[tuple[int, float]]:
    """Return the entries that hold one of the terms or more, best first, equal scores by entry id.

    The owner's key is the first parameter of *where*.
    """
    asked = Counter(map(without_nul, terms))
    owner_key = int(where.parameters[0])
    keys = {word: list_key(owner_key, word_key(word)) for word in asked}
    totals = [list_key(owner_key, total) for total in (ENTRY_COUNT, LENGTH_SUM)]
    counts = _counts(connection, base, [*totals, *keys.values()])
    entries, length = (counts.get(key, 0) for key in totals)
    if entries <= 0:
        return []
    wanted = _WantedPostings()
    for number, (word, times) in enumerate(asked.items()):
        number_held = counts.get(keys[word], 0)
        if number_held > 0:
            wanted.weights[keys[word]] = rarity(entries, number_held) * times
        elif FUZZY_MIN_LENGTH <= len(word) < LONGEST_NEAR:
            near = _near(connection, base, owner_key, word)
            wanted.near.extend((key, number, FUZZY_BOOST * times) for key in near)
    average = max(length, 1) / entries
    return _best(connection, base, wanted, where, average=average, limit=limit)


def _best(
    connection: Connection, base: str, wanted: _WantedPostings, where: Condition, *, average: float, limit: int
) -> list[tuple[int, float]]:
    if not wanted.weights and not wanted.near:
        return []
    exact = _EXACT.format(postings=base + POSTINGS)
    parameters: list[object] = [average, list(wanted.weights), list(wanted.weights.values())]
    scores = exact
    if wanted.near:
        scores = _BOTH.format(exact=exact, forgiven=_FORGIVEN.format(postings=base + POSTINGS))
        parameters.extend(list(column) for column in zip(*wanted.near, strict=True))
    words = _BEST.format(scores=scores, entries=base + ENTRIES, where=where.words)
    every = (*parameters, *where.parameters, limit)
    return connection.execute(words.encode(), every, binary=True).fetchall()


def _counts(connection: Connection, base: str, keys: list[int]) -> Mapping[int, int]:
    return dict(connection.execute(_COUNTS.format(words=base + WORDS).encode(), (keys,), binary=True).fetchall())


def _near(connection: Connection, base: str, owner_key: int, word: str) -> set[int]:
    """Return the keys of an owner's postings of the words that are one edit away."""
    half = len(word) // 2
    front, back = word[:half], word[: half - 1 : -1]
    length = len(word)
    swapped = [word[:n] + word[n + 1] + word[n] + word[n + 2 :] for n in range(length - 1)]
    words = _NEAR.format(words=base + WORDS, shortest=SHORTEST_NEAR, longest=LONGEST_NEAR)
    parameters = (
        *(owner_key, front, front + _MAX_CHARACTER, length),
        *(owner_key, back, back + _MAX_CHARACTER, length),
        [list_key(owner_key, word_key(one)) for one in swapped],
    )
    found = connection.execute(words.encode(), parameters, binary=True).fetchall()
    return {key for key, other in found if is_one_edit(word, other)}
