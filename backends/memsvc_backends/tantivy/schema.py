"""The fields of the index, and the opening of its directory.

Why all strings that filters compare share one field: every commit begins a dictionary for each field with terms,
whatever is in it. With fourteen of them a commit of one memory took 8 ms of a processor, with three it takes 3.5.

Why the terms of a text begin with a mark of its owner: a search reads the postings of one owner alone, and rarities
are those among the owner's entries. With 100 000 entries of 50 owners a search takes a quarter of the time
(0.20 ms for 0.76 ms), and the index is 2.3 times as large (129 bytes for each entry instead of 56).
"""

from __future__ import annotations

import hashlib
import math
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path

from tantivy import FieldType, Index, Occur, Query, Schema, SchemaBuilder, TextAnalyzerBuilder, Tokenizer

from memsvc.data_directory import obstacle_of
from memsvc.domain.errors import UNREACHED, BackendUnavailableError
from memsvc.domain.filters import NUMBERS, And, AnyOf, Field, Filter, FilterMemo, Not, Or, Range
from memsvc.domain.scope import Reach

FORMAT = 5
"""Raise it with every change of the schema or of `key`: an index of another format is rebuilt."""
BODY = "body"
ENTRY = "entry"
FINGERPRINT = "fingerprint"
ROW = "row"
TERMS = "terms"
"""Everything that filters compare as a whole: strings of `filter_term`, and one of `place_term`."""
CONFIDENCE = "confidence"

_ANALYZER = "memsvc_terms"
# Never unsigned: an unsigned fast field that is fed a plain integer panics the writer's thread.
_NUMBERS = (
    ENTRY, FINGERPRINT, "importance", "create_time", "update_time", "event_time", "expire_time", "valid_from",
    "valid_to",
)  # fmt: skip
OWNER = "owner"
_OWNERS_KNOWN = 10_000
_MAX_KEY = 512
_MAX_TERM = 16_000
"""Characters; Tantivy drops terms of more than 65 530 bytes without a word."""
NAME = "tantivy"
_MIN, _MAX = -(2**63), 2**63 - 1
_MANY_VALUES = 1000
"""Measured over 100 000 entries: up to here single terms are quicker than a set of terms, beyond they are slower."""


def build_schema() -> Schema:
    """Return the schema of every generation."""
    builder = SchemaBuilder()
    builder.add_text_field(BODY, tokenizer_name=_ANALYZER, index_option="freq")
    builder.add_text_field(TERMS, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field(ROW, indexed=True, fast=True)
    for name in _NUMBERS:
        builder.add_integer_field(name, fast=True)
    builder.add_float_field(CONFIDENCE, fast=True)
    return builder.build()


def open_index(directory: Path, schema: Schema) -> Index:
    """Open the index in the directory, or create it when there is none."""
    index = Index(schema, str(directory))
    # The default analyzer drops tokens over 40 bytes and folds case; terms are to stay as they are.
    index.register_tokenizer(_ANALYZER, TextAnalyzerBuilder(Tokenizer.whitespace()).build())
    # Searchers change when a change was committed and at no other moment; the default watches files in a thread.
    index.config_reader("manual")
    return index


def filter_term(name: str, value: str | int) -> str:
    """Return the token of a field value: a digest for long ones."""
    return _key(f"{name}={value}")


def place_term(owner: str, project_id: str) -> str:
    """Return the token of a project of an owner; it is unique."""
    return _key(f"{len(owner)}:{owner}{project_id}")


def _key(value: str) -> str:
    return value if len(value) <= _MAX_KEY else _digest(value)


@lru_cache(_OWNERS_KNOWN)
def owner_mark(owner: str) -> str:
    """Return what the terms of an owner's texts begin with: eight characters."""
    return urlsafe_b64encode(hashlib.blake2b(owner.encode(errors="surrogatepass"), digest_size=6).digest()).decode()


def term_key(mark: str, term: str) -> str:
    """Return the token of a term of an owner: the mark and the term, or a digest of it when Tantivy would drop it."""
    return mark + (term if len(term) <= _MAX_TERM else _digest(term))


def is_kept(text: str) -> bool:
    """Return whether no term of a text is too long for Tantivy."""
    return len(text) <= _MAX_TERM


def _digest(value: str) -> str:
    return "\0" + hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()


# What Tantivy raises, in the words of the domain.


@contextmanager
def translate() -> Iterator[None]:
    """Raise BackendUnavailableError in place of anything that Tantivy raises."""
    try:
        yield
    except (ValueError, RuntimeError, OSError) as error:
        raise BackendUnavailableError(NAME, problem=obstacle_of(error) or UNREACHED) from error
    except BaseException as error:
        # A panic in Rust derives from BaseException, and its class cannot be imported.
        if not is_panic(error):
            raise
        raise BackendUnavailableError(NAME) from error


def is_panic(error: BaseException) -> bool:
    """Return whether the error is a panic of native code."""
    return type(error).__name__ == "PanicException"


# The filter tree and the reach as Tantivy's queries; none of them adds to a score.


def selection(schema: Schema, reach: Reach, where: Filter | None, known: FilterMemo[Query] | None = None) -> Query:
    """Return the query for entries in *reach* that pass the filter, with a score of 0.

    *known* are the queries of the last filters.
    """
    places = _any_term(schema, TERMS, [place_term(reach.owner, project) for project in reach.project_ids])
    parts = [(Occur.Must, places)]
    if where is not None:
        make = partial(query_of, schema)
        parts.append((Occur.Must, make(where) if known is None else known.get(where, make)))
    return Query.const_score_query(Query.boolean_query(parts), 0.0)


def query_of(schema: Schema, where: Filter) -> Query:
    """Return the query that matches exactly what the filter matches; its scores mean nothing."""
    if isinstance(where, And):
        return _conjunction(schema, where)
    if isinstance(where, Or):
        return _any([query_of(schema, child) for child in where.children])
    if isinstance(where, Not):
        return _conjunction(schema, And((where,)))
    if isinstance(where, Range):
        return _range(schema, where)
    return _any_of(schema, where)


def _conjunction(schema: Schema, where: And) -> Query:
    # A boolean query of negations alone matches nothing in Tantivy, hence the query for all.
    parts = [(Occur.Must, Query.all_query())]
    for child in where.children:
        if isinstance(child, Not):
            parts.append((Occur.MustNot, query_of(schema, child.child)))
        else:
            parts.append((Occur.Must, query_of(schema, child)))
    return Query.boolean_query(parts)


def _any(queries: Sequence[Query]) -> Query:
    if not queries:
        return Query.empty_query()
    return queries[0] if len(queries) == 1 else Query.boolean_query([(Occur.Should, query) for query in queries])


def _any_term(schema: Schema, name: str, values: Sequence[str] | Sequence[int]) -> Query:
    if len(values) > _MANY_VALUES:
        return Query.term_set_query(schema, name, values)
    return _any([Query.term_query(schema, name, value, "basic") for value in values])


def _any_of(schema: Schema, where: AnyOf) -> Query:
    if where.field not in NUMBERS:
        return _any_term(schema, TERMS, [filter_term(where.field, v) for v in where.values if isinstance(v, str)])
    numbers = [value for value in where.values if not isinstance(value, str) and _MIN <= value <= _MAX]
    if where.field is Field.ROW:
        return _any_term(schema, ROW, numbers)
    if where.field is Field.IMPORTANCE:
        return _any_term(schema, TERMS, [filter_term(where.field, number) for number in numbers])
    # By the other numbers ranges alone are asked for, which need no postings.
    exact = [Range(where.field, at_least=number, at_most=number) for number in numbers]
    return _any([_range(schema, bounds) for bounds in exact])


def _range(schema: Schema, where: Range) -> Query:
    if any(
        bound is not None and math.isnan(bound) for bound in (where.above, where.at_least, where.below, where.at_most)
    ):
        return Query.empty_query()
    name = where.field.value
    if where.field is Field.CONFIDENCE:
        return _fractions(schema, name, where)
    lower = max(_whole(where.at_least, math.ceil, _MIN), _whole(where.above, _after, _MIN))
    upper = min(_whole(where.at_most, math.floor, _MAX), _whole(where.below, _before, _MAX))
    if lower > upper or lower > _MAX or upper < _MIN:
        return Query.empty_query()
    return Query.range_query(schema, name, FieldType.Integer, max(lower, _MIN), min(upper, _MAX))


def _fractions(schema: Schema, name: str, where: Range) -> Query:
    lower = max(_or(where.at_least, -math.inf), _or(where.above, -math.inf))
    upper = min(_or(where.at_most, math.inf), _or(where.below, math.inf))
    includes_lower = where.above is None or lower > where.above
    includes_upper = where.below is None or upper < where.below
    if lower > upper:
        return Query.empty_query()
    return Query.range_query(schema, name, FieldType.Float, float(lower), float(upper), includes_lower, includes_upper)


def _whole(bound: float | None, rounded: Callable[[float], int], absent: int) -> int:
    if bound is None:
        return absent
    # Infinities cannot be rounded; beyond the 64 bits one number is as good as another.
    return rounded(max(min(bound, 2.0**64), -(2.0**64)))


def _after(bound: float) -> int:
    return math.floor(bound) + 1


def _before(bound: float) -> int:
    return math.ceil(bound) - 1


def _or(bound: float | None, absent: float) -> float:
    return absent if bound is None else bound
