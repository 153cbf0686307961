"""Token estimates."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.text.chunking import count_tokens, quarter_tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 1), ("word " * 80, 100), ("中文", 2), ("用 Docker 部署", 5), ("한국어", 3), ("é", 1)],
)
def test_estimate(text: str, expected: int) -> None:
    """Four bytes are a token, and so is each Chinese, Japanese or Korean character."""
    assert count_tokens(text) == expected


@settings(deadline=None)
@given(st.text(), st.text())
def test_quarters_add_up_and_bound_the_bytes(left: str, right: str) -> None:
    """Costs of parts add up to the cost of the whole, which is never below a quarter of the bytes."""
    assert quarter_tokens(left + right) == quarter_tokens(left) + quarter_tokens(right)
    assert count_tokens(left) >= math.ceil(len(left.encode()) / 4)
