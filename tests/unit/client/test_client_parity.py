"""The two faces of the client."""

from __future__ import annotations

import inspect
import re

from memsvc.client import AsyncMemsvc, Memsvc

LIFETIME = {"open", "close"}
"""Each face opens and closes in its own way."""


def calls(client: type[AsyncMemsvc | Memsvc]) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(client, inspect.isfunction)
        if not name.startswith("_") and name not in LIFETIME
    }


def _blocking(annotation: str) -> str:
    stream = re.fullmatch(r"AsyncGenerator\[(.*), None\]", annotation)
    return f"Iterator[{stream[1]}]" if stream else annotation


def test_both_faces_have_the_same_methods() -> None:
    """What one can do, the other can, with the same arguments; streams are iterators of the same items."""
    expected = {
        name: signature.replace(return_annotation=_blocking(str(signature.return_annotation)))
        for name, signature in calls(AsyncMemsvc).items()
    }

    assert expected == calls(Memsvc)


def test_both_faces_are_made_alike() -> None:
    """Both are given the same to start with."""
    assert inspect.signature(AsyncMemsvc) == inspect.signature(Memsvc)


def test_every_call_is_documented() -> None:
    """Every method says its promise, on both faces."""
    for client in (AsyncMemsvc, Memsvc):
        for name in calls(client):
            assert getattr(client, name).__doc__
