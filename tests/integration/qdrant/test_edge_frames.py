"""Frames keep their bounds, whatever comes in whichever pieces."""

from __future__ import annotations

import marshal
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from memsvc_backends.qdrant_edge.ipc import Message, PipeConnection


@pytest.fixture
def ends() -> Iterator[tuple[PipeConnection, socket.socket]]:
    """Return a connection and the bare socket at its other end."""
    near, far = PipeConnection.pair()
    try:
        yield near, far
    finally:
        near.close()
        far.close()


def frame(message: Message, blob: bytes = b"") -> bytes:
    """Return a frame's bytes."""
    head = marshal.dumps(message)
    return struct.pack("<II", len(head), len(blob)) + head + blob


def test_frame_in_pieces_is_put_together_over_several_calls(ends: tuple[PipeConnection, socket.socket]) -> None:
    """What has come when the time is over is kept, wherever it was cut."""
    near, far = ends
    whole = frame(("answer", [1, 2]), b"blob")
    for cut in range(len(whole)):
        far.sendall(whole[:cut])
        with pytest.raises(TimeoutError):
            near.receive(time.monotonic() + 0.001 * (cut % 2))
        far.sendall(whole[cut:])

        assert near.receive(time.monotonic() + 10) == (("answer", [1, 2]), b"blob")


def test_frame_larger_than_every_buffer_arrives(ends: tuple[PipeConnection, socket.socket]) -> None:
    """And so does a small one after it."""
    near, far = ends
    blob = bytes(range(256)) * 8_000
    sender = threading.Thread(target=far.sendall, args=(frame(("write", 1), blob),))
    sender.start()
    large = near.receive()
    sender.join()
    far.sendall(frame(("small",)))

    assert large == (("write", 1), blob)
    assert near.receive() == (("small",), b"")


def test_frame_that_is_there_is_read_after_the_deadline(ends: tuple[PipeConnection, socket.socket]) -> None:
    """A reply in time is a reply, however late it is looked at."""
    near, far = ends
    far.sendall(frame(("answer", 1)))

    assert near.receive(time.monotonic() - 1) == (("answer", 1), b"")


def test_time_limit_of_one_call_does_not_hold_for_the_next(ends: tuple[PipeConnection, socket.socket]) -> None:
    """A call without a limit waits as long as it takes after one with a limit."""
    near, far = ends
    with pytest.raises(TimeoutError):
        near.receive(time.monotonic() + 0.001)
    sender = threading.Timer(0.02, far.sendall, args=(frame(("late",)),))
    sender.start()

    assert near.receive() == (("late",), b"")
    sender.join()


def test_closed_end_is_told(ends: tuple[PipeConnection, socket.socket]) -> None:
    """Both reading and writing fail, in the middle of a frame too."""
    near, far = ends
    far.sendall(frame(("answer", 1))[:5])
    far.close()

    with pytest.raises(ConnectionResetError):
        near.receive()
    with pytest.raises(BrokenPipeError):
        near.send(("ping",))
