"""What an endpoint answered, as vectors, or why it is no answer."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import numpy as np

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.models import Vector, Vectors
from memsvc_backends.openai.errors import NAME


def vectors_of(reply: Any, *, count: int, dimension: int) -> Vectors:
    """Return *count* vectors of unit length, in the order of the texts; *dimension* 0 takes any length.

    Endpoints that only resemble OpenAI's may leave anything out.

    Raises:
        BackendUnavailableError: They are fewer or more, of another length, or not numbers; the message says so.
    """
    data = getattr(reply, "data", None) or []
    if len(data) != count:
        raise unusable(f"answered {len(data)} vectors for {count} texts")
    places = [getattr(one, "index", None) for one in data]
    if places != list(range(count)) and sorted(place for place in places if isinstance(place, int)) == [*range(count)]:
        data = sorted(data, key=lambda one: int(one.index))
    rows = [_vector(getattr(one, "embedding", None)) for one in data]
    _check_lengths(rows, dimension)
    vectors = np.vstack(rows)
    if not np.isfinite(vectors).all():
        raise unusable("answered a vector that holds something else than finite numbers")
    # In double precision: the square of a large number is none in single precision.
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not lengths.all():
        raise unusable("answered a vector of zeros, which points nowhere")
    return np.ascontiguousarray(vectors / lengths, dtype=np.float32)


def _check_lengths(rows: Sequence[Vector], dimension: int) -> None:
    expected = dimension or len(rows[0])
    for row in rows:
        if len(row) != expected or not expected:
            raise unusable(
                f"answered a vector of {len(row)} dimensions instead of {expected}: has the model behind its name "
                "changed? Set dimensions among its options, and all vectors are made anew"
            )


def _vector(value: object) -> Vector:
    try:
        if isinstance(value, str):
            return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float32)
        vector = np.asarray(value, dtype=np.float32)
    except (ValueError, TypeError, binascii.Error) as error:
        raise unusable("answered a vector that is none") from error
    if vector.ndim != 1:
        raise unusable("answered a vector that is none")
    return vector


def unusable(problem: str) -> BackendUnavailableError:
    """Return the error that says what is wrong with an answer, for the end of a sentence."""
    return BackendUnavailableError(NAME, retry_seconds=5.0, problem=problem)
