"""Text in stored answers, which only who repeats the request can read."""

from __future__ import annotations

import pytest

from memsvc.engine.commit.idempotency import seal, unseal


@pytest.mark.parametrize("text", ["", "I am allergic to nuts.", "我对坚果过敏。", "\0\0\0", "a" * 100_000])
@pytest.mark.parametrize("content", ["", "I am allergic to nuts. 你好", "x"])
def test_text_is_read_with_the_content_alone(text: str, content: str) -> None:
    """And every seal is another."""
    one, other = seal(text, content), seal(text, content)
    assert unseal(one, content) == unseal(other, content) == text
    assert one != other
    assert len(text) < 8 or text[:8] not in one


def test_another_content_does_not_read_it() -> None:
    """Not even one that is nearly the same."""
    sealed = seal("I am allergic to nuts.", "I am allergic to nuts.")
    try:
        assert unseal(sealed, "I am allergic to nuts") != "I am allergic to nuts."
    except UnicodeDecodeError as error:
        assert b"allergic" not in error.object
