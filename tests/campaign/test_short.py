"""A short campaign: one fault of a few kinds under load, every invariant after each."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.campaign.run import Plan, run

pytestmark = pytest.mark.xdist_group("campaign")


def test_a_few_faults_break_no_promise(tmp_path: Path) -> None:
    """Nothing acknowledged is lost or doubled, indexes equal the store, no foreign data, receipts are true."""
    names = ("kill -9", "vectors: kill -9", "connections dropped")
    seed = random.randrange(10**6)

    result = run(Plan(faults=len(names), seed=seed, names=names), tmp_path)

    assert ([], len(names)) == (result.ledger.violations, result.faults), f"seed {seed}"
    assert result.acknowledged
    assert all(figures.recoveries for name, figures in result.ledger.figures.items() if name in names)
