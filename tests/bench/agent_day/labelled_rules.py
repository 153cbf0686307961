"""Precision and recall of the text rules on labelled sentences, per language.

Run: `python -m tests.bench.agent_day.labelled_rules FILE… [--verbose]`. The lines of the files are JSON objects.
Their fields tell what they label:

- `text`, `remember`: whether the rules of capture keep the sentence, and optionally its `kind`.
- `older`, `newer`, `conflict`: whether the newer statement makes the older one outdated.
- `one`, `other`, `same`: whether both say the same and may be merged.
- `user`, `assistant`, in a JSON object of languages: rounds of chat of which nothing is kept.
- `facts`, in a JSON object: a scripted user; what is said is kept, and what `replaces` another fact is a conflict.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memsvc.domain.conflicts import contradicts
from memsvc.domain.sessions import Role
from memsvc.text.capture_rules import judge
from memsvc.text.facts import facts_in, loose_facts_in
from memsvc.text.paraphrase import are_alike, gist_of
from memsvc.text.statement_split import statements

KINDS = {
    "INSTRUCTION": {"PREFERENCE"},
    "FACT": {"FACT", "DECISION", "EXPERIENCE", "PREFERENCE"},
    "PREFERENCE": {"PREFERENCE"},
    "TASK": {"TASK"},
}
"""The kinds of memories that do for a labelled kind."""
Row = Mapping[str, Any]


@dataclass(slots=True)
class LabelledScore:
    """Counts of one rule family in one language."""

    counts: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, text: str, *, wanted: bool, got: bool, seconds: float) -> None:
        """Count one label and what the rules said."""
        self.counts[wanted, got] += 1
        self.seconds += seconds
        if wanted is not got:
            self.wrong.append(f"{'missed' if wanted else 'invented'}: {text}")

    def __str__(self) -> str:
        """Return the figures in one line."""
        hits, total = self.counts[True, True], sum(self.counts.values())
        found, wanted = hits + self.counts[False, True], hits + self.counts[True, False]
        precision = f"{hits / found:.3f}" if found else "-"
        recall = f"{hits / wanted:.3f}" if wanted else "-"
        per_line = 1000 * self.seconds / total if total else 0.0
        return (
            f"n {total}, precision {precision}, recall {recall}, invented {found - hits}, missed {wanted - hits}, "
            f"{per_line:.2f} ms each"
        )


def is_kept(text: str, role: Role = Role.USER) -> tuple[bool, str]:
    """Return whether capture keeps any statement of *text*, and the kind of the first one."""
    for piece in statements(text):
        verdict = judge(piece.text, role, is_code=piece.is_code, is_quoted=piece.is_quoted)
        if verdict.remember and verdict.kind is not None:
            return True, verdict.kind.value
    return False, ""


def outdates(newer: str, older: str) -> bool:
    """Return whether a statement of *newer* contradicts one of *older*."""
    before = {fact.topic: fact for fact in (*facts_in(older), *loose_facts_in(older))}
    after = (*facts_in(newer), *loose_facts_in(newer))
    return any(fact.topic in before and contradicts(before[fact.topic], fact) for fact in after)


def _differ(row: Row) -> bool:
    return outdates(row["one"], row["other"]) or outdates(row["other"], row["one"])


def labelled(rows: Iterable[Row]) -> Iterator[tuple[str, str, bool, Row]]:
    """Yield the rule family, the language, the label and the row of each labelled line."""
    for row in rows:
        if "remember" in row:
            yield "capture", row["language"], row["remember"], row
        elif "conflict" in row:
            yield "conflicts", row.get("language") or row["id"][:2], row["conflict"], row
        elif "same" in row:
            yield "duplicates", row.get("language") or row["id"][:2], row["same"], row


def rows_of(path: Path) -> Iterator[Row]:
    """Yield the labelled lines of a file, a scripted user or rounds of chat taken apart into lines."""
    if path.suffix == ".jsonl":
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)
        return
    content = json.loads(path.read_text(encoding="utf-8"))
    if "facts" not in content:
        for language, rounds in content.items():
            for one in rounds:
                yield {"language": f"{language} filler", "text": one["user"], "remember": False}
                yield {"language": f"{language} replies", "text": one["assistant"], "remember": False, "role": "A"}
        return
    said = {fact["id"]: fact for fact in content["facts"]}
    for fact in said.values():
        language = "zh" if re.search("[\u4e00-\u9fff]", fact["say"]) else "en"
        yield {"language": f"{language} said", "text": fact["say"], "remember": True, "kind": fact["kind"]}
        if fact["replaces"]:
            older = said[fact["replaces"]]
            for how in ("say", "write"):
                yield {
                    "language": f"{language} {how}",
                    "older": older[how],
                    "newer": fact[how],
                    "conflict": True,
                }

    def chain(fact: Row) -> str:
        return chain(said[fact["replaces"]]) if fact["replaces"] else fact["id"]

    for how in ("say", "write"):
        for newer in said.values():
            for older in said.values():
                if older is newer:
                    break
                if chain(older) != chain(newer):
                    yield {
                        "language": f"{content['user']} {how}, others",
                        "older": older[how],
                        "newer": newer[how],
                        "conflict": False,
                    }


def measure(rows: Iterable[Row]) -> dict[tuple[str, str], LabelledScore]:
    """Return the scores by family and language."""
    scores: dict[tuple[str, str], LabelledScore] = {}
    for family, language, wanted, row in labelled(rows):
        started = time.perf_counter()
        if family == "capture":
            got, kind = is_kept(row["text"], Role.ASSISTANT if "role" in row else Role.USER)
            shown = row["text"]
        elif family == "conflicts":
            got, shown = outdates(row["newer"], row["older"]), f"{row['older']} | {row['newer']}"
        else:
            one, other = gist_of(row["one"]), gist_of(row["other"])
            got = are_alike(one, other) and not (one.is_pointing or other.is_pointing) and not _differ(row)
            shown = f"{row['one']} | {row['other']}"
        took = time.perf_counter() - started
        scores.setdefault((family, language), LabelledScore()).add(shown, wanted=wanted, got=got, seconds=took)
        if family == "capture" and wanted and got and row.get("kind"):
            fits = kind in KINDS.get(row["kind"], {row["kind"]})
            scores.setdefault(("kind", language), LabelledScore()).add(
                f"{kind}: {shown}", wanted=True, got=fits, seconds=took
            )
    return scores


def main(arguments: list[str] | None = None) -> int:
    """Print the scores of the given files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--verbose", action="store_true", help="print the sentences that the rules get wrong")
    options = parser.parse_args(arguments)
    scores = measure(row for path in options.files for row in rows_of(path))
    for (family, language), score in sorted(scores.items()):
        sys.stdout.write(f"{family:<11}{language:<12}{score}\n")
        for line in score.wrong if options.verbose else ():
            sys.stdout.write(f"    {line}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
