"""Centring spreads out what an embedder crowds together."""

from __future__ import annotations

import numpy as np

from memsvc.domain.index_entries import VectorManifest, View
from memsvc.engine.indexing.vector_entries import centre, means_of


def test_centred_vectors_have_unit_length_and_no_mean_in_them() -> None:
    """normalise(v - mean), row by row."""
    vectors = np.array([[3.0, 1.0], [1.0, 3.0]], dtype=np.float32)

    moved = centre(vectors, np.array([1.0, 1.0], dtype=np.float32))

    np.testing.assert_allclose([[1.0, 0.0], [0.0, 1.0]], moved)


def test_without_a_mean_vectors_are_only_scaled() -> None:
    """No mean: the direction stays."""
    np.testing.assert_allclose([0.6, 0.8], centre(np.array([3.0, 4.0], dtype=np.float32), None), rtol=1e-6)


def test_the_mean_itself_stays_zero() -> None:
    """A vector that equals the mean has no direction, and does not become NaN."""
    mean = np.array([1.0, 2.0], dtype=np.float32)

    np.testing.assert_array_equal([0.0, 0.0], centre(mean, mean))


def test_means_of_a_manifest_leave_out_empty_ones() -> None:
    """A view without a mean is not centred."""
    manifest = VectorManifest(1, "model", 2, 0, means={View.CHUNK: (1.0, 2.0), View.WINDOW: ()})

    assert list(means_of(manifest)) == [View.CHUNK]
