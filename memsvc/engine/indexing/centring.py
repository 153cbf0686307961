"""Centring: cosine after the mean of the space is taken away, which spreads out what an embedder crowds together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from memsvc.domain.index_entries import VectorManifest, View
from memsvc.ports.models import Vector, Vectors

Means: TypeAlias = Mapping[View, Vector]


def means_of(manifest: VectorManifest) -> Means:
    """Return the means of a manifest as arrays; views without one are left out."""
    return {view: np.array(mean, dtype=np.float32) for view, mean in manifest.means.items() if mean}


def centred(vectors: Vectors, mean: Vector | None) -> Vectors:
    """Return normalise(v - mean) for each row, or normalise(v) without a mean; a zero row stays zero."""
    moved = vectors if mean is None else vectors - mean
    lengths = np.linalg.norm(moved, axis=-1, keepdims=True)
    return np.ascontiguousarray(moved / np.where(lengths == 0.0, 1.0, lengths), dtype=np.float32)
