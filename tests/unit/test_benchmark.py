"""The measures of the benchmark, its choice of foreign questions, its ablations and its load generators."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.bench.conversations import ADVERSARIAL, Conversation, Probe, Said, read_conversations
from tests.bench.load_generators import Load, concurrent_load
from tests.bench.relevance import MOST_FOREIGN, FirstHit, foreign_questions, is_held_out, relevance_rows
from tests.bench.scoring import Scores, SessionScores, calibration_error, share_below, threshold_that_keeps
from tests.bench.settings import parse_ablations


def test_scores_of_one_question() -> None:
    """Two of three pieces of evidence at ranks 2 and 11: depths, first rank and discounts count."""
    ranked = [f"x{number}" for number in range(20)]
    ranked[1], ranked[10] = "a", "b"

    measures = Scores.of(ranked, {"a", "b", "c"}).named()

    assert list(measures) == ["R@5", "R@10", "R@20", "hit@5", "MRR", "nDCG@10"]
    assert [measures[name] for name in ("R@5", "R@10", "R@20")] == pytest.approx([1 / 3, 1 / 3, 2 / 3])
    assert (measures["hit@5"], measures["MRR"]) == (1.0, 0.5)
    assert measures["nDCG@10"] == pytest.approx(0.63093 / (1 + 0.63093 + 0.5), abs=1e-5)


def test_scores_without_a_hit_are_zero() -> None:
    """An empty list is scored as well."""
    assert set(Scores.of([], {"a"}).named().values()) == {0.0}


@pytest.mark.parametrize(("share", "threshold"), [(0.95, 2.0), (1.0, 1.0), (0.5, 11.0), (0.01, 20.0), (0.951, 1.0)])
def test_threshold_keeps_at_least_its_share(share: float, threshold: float) -> None:
    """It is the largest value that leaves the share of all at or above it: of 1 to 20, 19 reach 2."""
    values = [float(number) for number in range(20, 0, -1)]

    found = threshold_that_keeps(share, values)

    assert found == threshold
    assert 1 - share_below(found, values) >= share


@pytest.mark.parametrize(("share", "values"), [(0.95, []), (0.0, [1.0]), (1.1, [1.0])])
def test_threshold_needs_values_and_a_share(share: float, values: list[float]) -> None:
    """A wrong argument is named."""
    with pytest.raises(ValueError, match="A threshold needs values"):
        threshold_that_keeps(share, values)


def test_share_below_leaves_out_equal_values() -> None:
    """A value at the threshold is kept."""
    assert share_below(0.5, [0.1, 0.5, 0.9, 0.2]) == 0.5


def test_calibration_error_weighs_bins_by_their_predictions() -> None:
    """Three predictions of 0.9, two right: |0.9 - 2/3|; one wrong of 0.2: 0.2; the border 1 is in the last bin."""
    predictions = [(0.9, True), (0.9, True), (0.9, False), (0.2, False)]

    assert calibration_error(predictions) == pytest.approx(3 / 4 * (0.9 - 2 / 3) + 1 / 4 * 0.2)
    assert calibration_error([(1.0, True), (0.95, True)]) == pytest.approx(0.025)


def test_calibration_error_of_calibrated_predictions_is_zero() -> None:
    """One of four predictions of 0.25 is right; with one bin only the mean counts."""
    assert calibration_error([(0.25, number == 0) for number in range(4)]) == 0
    assert calibration_error([(0.0, True), (1.0, False)], bins=1) == 0
    assert calibration_error([(0.0, True), (1.0, False)]) == 1


def conversation(name: str, count: int, *, language: str = "en") -> Conversation:
    """Return a conversation with as many questions as lines."""
    lines = tuple(Said(f"{number}", "", "", f"Line {number} of {name}.", None) for number in range(count))
    questions = tuple(Probe(f"{name} {number}?", (f"{number}",), 1, language) for number in range(count))
    return Conversation(name, lines, questions)


def test_foreign_questions_are_of_other_conversations_in_the_same_language() -> None:
    """As many as there are own ones, without evidence; a language that no other user speaks has none."""
    sets = {"one": [conversation("a", 3), conversation("b", 5)], "other": [conversation("c", 4, language="zh")]}

    foreign = foreign_questions(sets)

    assert {key: len(questions) for key, questions in foreign.items()} == {
        ("one", "a"): 3,
        ("one", "b"): 3,
        ("other", "c"): 0,
    }
    assert {question.text[0] for question in foreign["one", "a"]} == {"b"}
    assert {question.evidence for question in foreign["one", "a"]} == {()}
    assert foreign == foreign_questions(sets)


def test_foreign_questions_have_no_answer_in_the_data() -> None:
    """Questions that the user has, whose evidence the user has, and adversarial ones are left out."""
    own = conversation("a", 3)
    other = Conversation(
        "b",
        (Said("1", "", "", "line 0  of A.", None), Said("2", "", "", "Something else.", None)),
        (
            Probe("Is its answer known?", ("1", "2"), 1, "en"),
            Probe("A 1?", ("2",), 1, "en"),
            Probe("Is it misquoted?", ("2",), ADVERSARIAL, "en"),
            Probe("Is it foreign?", ("2",), 1, "en"),
        ),
    )

    foreign = foreign_questions({"set": [own, other]})

    assert [question.text for question in foreign["set", "a"]] == ["Is it foreign?"]


def test_foreign_questions_of_a_large_set_are_shared_out() -> None:
    """Each conversation has its part of the largest number."""
    sets = {"set": [conversation("a", 300), conversation("b", 100)], "other": [conversation("c", 400)]}

    foreign = foreign_questions(sets)

    assert (len(foreign["set", "a"]), len(foreign["set", "b"])) == (150, 50)
    assert len(foreign["other", "c"]) == MOST_FOREIGN


def test_relevance_rows_summarise_first_hits() -> None:
    """The threshold is that of the right first hits, the error that of both kinds of the held-out half."""
    own = [FirstHit(f"own {number}", 0.8 if number else 0.3, is_right=bool(number)) for number in range(40)]
    foreign = [FirstHit(f"foreign {number}", 0.5 if number % 4 else 0.85, is_right=False) for number in range(40)]

    rows = relevance_rows("set", "score", own, foreign)

    held_out = [(one.confidence, one.is_right) for one in own + foreign if is_held_out(one.question)]
    assert {row.name for row in rows} == {"set"}
    assert {row.unit: row.value for row in rows} == {
        "questions": 40,
        "right first": 39,
        "foreign": 40,
        "score that 95% reach": 0.8,
        "foreign below": 0.75,
        "calibration error": calibration_error(held_out),
    }
    assert 20 < len(held_out) < 60


def test_relevance_rows_need_right_hits_and_foreign_questions() -> None:
    """There is no threshold without them."""
    hit = FirstHit("q", 0.5, is_right=True)

    assert relevance_rows("set", "score", [hit], []) == []
    assert relevance_rows("set", "score", [], [hit]) == []


def test_ablations_of_one_name_are_one_ablation() -> None:
    """Each has the settings that are given under its name; values may hold an equals sign."""
    ablations = parse_ablations(["a=ranking.session=0", "b=ranking=keyword", "a=x.url=k=v"])

    assert ablations == {"a": {"ranking.session": "0", "x.url": "k=v"}, "b": {"ranking": "keyword"}}


@pytest.mark.parametrize("given", ["name", "name=path", "=path=1", "name==1"])
def test_malformed_ablations_are_refused(given: str) -> None:
    """The message names the form."""
    with pytest.raises(SystemExit, match="--ablate needs NAME=PATH=VALUE"):
        parse_ablations([given])


class _Recorder(grpc.GenericRpcHandler):
    """A service with one method, which refuses empty requests."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.peers: set[str] = set()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._answer) if handler_call_details.method == "/s/m" else None

    async def _answer(self, request: bytes, context: Any) -> bytes:
        self.requests.append(request)
        self.peers.add(context.peer())
        if not request:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "The queue is full.")
        return request


def test_clients_in_processes_share_the_requests() -> None:
    """Each request is sent once, each client has a connection, and refused calls have no duration."""
    requests = [*(f"{number}".encode() for number in range(1, 60)), b""]
    recorder = _Recorder()

    async def load() -> Load:
        server = aio.server()
        server.add_generic_rpc_handlers((recorder,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            return await concurrent_load(f"127.0.0.1:{port}", "/s/m", requests, clients=5)
        finally:
            await server.stop(None)

    found = asyncio.run(load())

    assert sorted(recorder.requests) == sorted(requests)
    assert len(recorder.peers) == 5
    assert (len(found.seconds), found.refused) == (59, 1)
    assert 0 < max(found.seconds) <= found.ended - found.began
    assert found.per_second == 59 / (found.ended - found.began)


def read(tmp_path: Path, *items: dict[str, Any], name: str = "set.json") -> list[Conversation]:
    """Return the conversations of a file with items."""
    path = tmp_path / name
    lines = "\n".join(map(json.dumps, items))
    path.write_text(lines if name.endswith(".jsonl") else json.dumps(items), encoding="utf-8")
    return read_conversations(path)


def test_locomo_as_it_is_published(tmp_path: Path) -> None:
    """Malformed lists of evidence are read, ids of no turn dropped, and questions without evidence left out."""
    turns = [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "Hi!"},
        {"speaker": "Bo", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a dog", "img_url": ["http://x"]},
    ]
    later = [{"speaker": "Ann", "dia_id": "D10:05", "text": "Bye."}]
    asked = [
        {"question": "What did Bo show?", "answer": "A dog", "evidence": ["D1:2; D10:5"], "category": 1},
        {"question": "Where?", "answer": 5, "evidence": ["D9:9"], "category": 4},
        {"question": "When?", "adversarial_answer": "now", "evidence": ["D1:01"], "category": 5},
    ]
    talk = {
        "speaker_a": "Ann", "session_10": later, "session_10_date_time": "1:56 pm on 8 May, 2023", "session_1": turns,
        "session_1_date_time": "1:56 pm on 1 May, 2023",
    }  # fmt: skip
    [found] = read(tmp_path, {"sample_id": "c", "conversation": talk, "qa": asked})

    assert ["D1:1", "D1:2", "D10:5"] == [line.id for line in found.lines]
    assert "Look! [image: a dog]" == found.lines[1].text
    assert [("session_1", 1), ("session_10", 8)] == [(one.session, one.time.day) for one in found.lines[1:] if one.time]
    assert [(("D1:2", "D10:5"), 1), (("D1:1",), ADVERSARIAL)] == [(q.evidence, q.category) for q in found.questions]


def test_longmemeval_as_it_is_published(tmp_path: Path) -> None:
    """What is stored says nothing of the answer; turns with the flag are evidence, or the whole session without one."""
    turns = [
        {"role": "user", "content": "I moved to Oslo.", "has_answer": True}, {"role": "assistant", "content": "Nice!"},
        {"role": "user", "content": " "},
    ]  # fmt: skip
    item = {
        "question_id": "q1", "question": "Where do I live?", "question_type": "knowledge-update", "answer": "Oslo",
        "question_date": "2023/05/30 (Tue) 23:40", "answer_session_ids": ["answer_1", "answer_2"],
        "haystack_session_ids": ["x", "answer_1", "answer_2"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:21", "2023/05/22 (Mon) 02:21"],
        "haystack_sessions": [[{"role": "user", "content": "Hi"}], turns, [{"role": "user", "content": "Still Oslo."}]],
    }  # fmt: skip
    found, other = read(tmp_path, item, {**item, "question_id": "q2_abs"}, name="set.jsonl")

    assert not any("answer" in f"{line.id} {line.session}" for line in found.lines)
    assert ["S1:0", "S2:0", "S2:1", "S3:0"] == [line.id for line in found.lines]
    assert [(("S2:0", "S3:0"), 7)] == [(one.evidence, one.category) for one in found.questions]
    assert [ADVERSARIAL] == [one.category for one in other.questions]
    assert "2023-05-20T02:21:00+00:00" == (found.lines[0].time and found.lines[0].time.isoformat())


@pytest.mark.parametrize("is_literal", [False, True])
def test_beam_as_it_is_published(tmp_path: Path, *, is_literal: bool) -> None:
    """Sessions of any nesting; evidence by message ids, those that are not unique excepted."""
    first = [
        {"id": 0, "role": "user", "content": "Sprint ends on May 3.", "time_anchor": "March-15-2024"},
        {"id": 1, "role": "assistant", "content": "Noted."},
    ]
    chat = [
        {"plan-1": [first]},
        {"plan-2": [[{"id": 2, "role": "user", "content": "a"}, {"id": 1, "role": "user", "content": "b"}]]},
    ]
    asked: Any = {
        "information_extraction": [
            {"question": "When does the sprint end?", "source_chat_ids": {"first": [0], "x": [1, 7]}}
        ],
        "abstention": [{"question": "Who am I?", "source_chat_ids": []}],
        "summarization": [{"question": "What was said?", "source_chat_ids": [[0], [2]]}],
    }
    [found] = read(
        tmp_path, {"chat": chat, "probing_questions": repr(asked) if is_literal else asked, "conversation_id": 4}
    )

    assert ("4", ["0", "S1:1", "2", "S2:1"]) == (found.name, [line.id for line in found.lines])
    assert ["S1", "S1", "S2", "S2"] == [line.session for line in found.lines]
    assert [15, 15, None, None] == [line.time and line.time.day for line in found.lines]
    assert [(("0",), 1), (("0", "2"), 10)] == [(one.evidence, one.category) for one in found.questions]


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    """By what it has."""
    with pytest.raises(ValueError, match=r"Item 0 is of no form .* it has texts"):
        read(tmp_path, {"texts": []})


def test_scores_of_sessions() -> None:
    """Of hits of many sessions the first five sessions count, not the first five hits."""
    seen = ["a", "a", "b", "a", "c", "d", "e", "f"]

    assert SessionScores(1.0, 1.0) == SessionScores.of(seen, {"a", "e"})
    assert SessionScores(0.0, 1.0) == SessionScores.of(seen, {"a", "f"})
    assert SessionScores(0.0, 0.0) == SessionScores.of(seen, {"f"})
    assert SessionScores(0.5, 1.0) == SessionScores.mean([SessionScores(0.0, 1.0), SessionScores(1.0, 1.0)])
