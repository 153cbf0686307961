"""Free JSON on its way over the wire."""

from __future__ import annotations

import sys

import pytest

from memsvc.server.requests.decoder import RequestDecoder
from memsvc.server.responses.memories import struct_to_proto


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_beyond_all_doubles_is_told_as_the_last_one(sign: int) -> None:
    """A service that took one in before such were refused can still show the memory."""
    struct = struct_to_proto({"a": [sign * 10**400]})

    assert {"a": [sign * sys.float_info.max]} == RequestDecoder().metadata("metadata", struct)
