"""What each method does to strangers: registered under its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc

from tests.e2e.isolation.fixtures import Stranger

Case = Callable[[Stranger], Iterator[tuple[Sequence[Any], grpc.StatusCode]]]
"""Yields requests of one method, and the code that each must have."""

OK, NOT_FOUND, INVALID = grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT

CASES: dict[str, Case] = {}


def case(made: Case) -> Case:
    """Note a case under the name of its method."""
    CASES[made.__name__] = made
    return made
