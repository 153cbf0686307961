"""The commands about conversations and contexts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import invoke


def test_a_conversation_is_kept(run: Any) -> None:
    """Opened, spoken in, read, trimmed, ended and gone on with."""
    assert run("session", "create", "talk", "--title", "计划").startswith("talk active")
    for number in range(5):
        run("session", "append", "talk", f"We decided on step {number}.")
    told = run("session", "append", "talk", "-", "--role", "assistant", "--name", "Ann", given="好的。")
    assert told.startswith("6 appended, ")

    lines = run("session", "messages", "talk", "--limit", "2").splitlines()
    assert [line.split("\t")[1] for line in lines] == ["who", "user", "Ann"]
    assert run("session", "list", "--state", "active").splitlines()[1].startswith("talk\tactive\t")
    assert "0 messages (0 tokens) archived" in run("session", "trim", "talk")
    assert json.loads(run("session", "show", "talk", "--json"))["messageCount"] == 6
    assert "计划" in run("session", "show", "talk")
    run("session", "append", "talk", "We decided to use Redis.")
    closed = run("session", "close", "talk", "--no-flush").splitlines()
    assert closed == ["talk closed"]
    remembered = run("session", "close", "talk").splitlines()
    assert remembered[0] == "talk closed"
    assert remembered[1].startswith("remembered: We decided to use Redis. (")
    assert json.loads(run("session", "close", "talk", "--json"))["session"]["state"] == "SESSION_STATE_CLOSED"
    assert run("session", "reopen", "talk").startswith("talk active")
    assert "reads" not in run("session", "messages", "talk", "--archived", "--json")


def test_captured_text_is_told_line_by_line(run: Any) -> None:
    """What is remembered and what is not, and nothing is stored by a dry run."""
    said = "I prefer tabs. 谢谢！"
    dry = run("capture", said, "--dry-run")

    assert [line.split("\t")[:2] for line in dry.splitlines()[1:]] == [["yes", "preference"], ["no", "small talk"]]
    assert "tabs" not in run("list")
    assert run("capture", "-", given=said).count("yes") == 1
    assert "I prefer tabs." in run("list")
    assert json.loads(run("capture", said, "--json"))["decisions"][0]["reason"] == "CAPTURE_REASON_KNOWN"


def test_a_conversation_is_flushed(run: Any, tmp_path: Path) -> None:
    """From a file, from stdin and from a session; what was remembered before is met again."""
    said = [
        {"role": "user", "content": "I am allergic to peanuts. What now?", "name": "Ada"},
        {"role": "assistant", "content": "You like tea."}, {"content": "我住在杭州。"},
    ]  # fmt: skip
    lines = "\n".join(json.dumps(one, ensure_ascii=False) for one in said) + "\n\n"
    path = tmp_path / "said.jsonl"
    path.write_text(lines, encoding="utf-8")

    told = run("flush", str(path)).splitlines()
    assert [line.split("\t")[0] for line in told[1:-1]] == ["created", "created"]
    assert told[-1] == "2 remembered, 2 statements ignored"
    assert "0 remembered, 4 statements ignored" in run("flush", "-", given=lines)
    run("session", "create", "talk")
    run("session", "append", "talk", "We decided to use Redis.")
    assert "We decided to use Redis." in run("flush", "--session", "talk")
    assert json.loads(run("flush", "--session", "talk", "--json"))["recalledCount"] == 1


@pytest.mark.parametrize(
    "lines", ["x", "[]", '{"role": "user"}', '{"role": "king", "content": "a"}', '{"content": "a", "to": 1}']
)
def test_a_line_that_is_no_message_is_told(run: Any, lines: str) -> None:
    """And so is a command that names neither messages nor a session, or both."""
    run("flush", "-", given=lines, code=1)
    run("flush", code=1)
    run("flush", "-", "--session", "s", code=1)


def test_a_context_is_shown_as_markdown(run: Any, address: str, request: pytest.FixtureRequest) -> None:
    """With a language, a budget, sections, and as what changed since an earlier one; as JSON whole or streamed."""
    run("add", "回答要简短。", "--layer", "core")
    found = run("add", "The otter sleeps by the river.", "--project", "web").split()[0]
    words = ["context", "where does the otter sleep?", "--project", "web"]

    shown = run(*words, "--locale", "zh")
    whole = json.loads(run(*words, "--json"))
    streamed = [json.loads(line) for line in run(*words, "--json", "--stream").splitlines()]
    small = json.loads(run(*words, "--tokens", "5", "--json"))
    assert json.loads(run(*words, "--total-tokens", "5", "--json")).keys() == small.keys()
    section = json.loads(run(*words, "--section", "global-core", "--json"))
    since = json.loads(run(*words, "--since", whole["summary"]["contextCursor"], "--json"))
    told = invoke(*words, "--address", address, "--user", request.node.name)

    assert "## 核心" in shown
    assert f"- {whole['citations'][-1]['citation']} " in shown
    assert f"[mem:{found}]" in run(*words, "--full-ids")
    assert whole["citations"][-1]["memoryId"] == found
    parts = [part for event in streamed for part in event.values() if isinstance(part, dict)]
    texts = [one.get("text", "") for part in parts for one in (part, *part.get("items", ()))]
    assert "".join(texts) == whole["markdown"]
    assert (small["markdown"], small["warnings"][0]["code"]) == ("", "WARNING_CODE_BUDGET_TOO_SMALL")
    assert len(section["citations"]) == 1
    assert since["citations"] == []
    assert "of 128000 tokens; cursor " in told.stderr
    run(*words, "--since", "x", code=1)


def test_a_context_can_be_shared_out_narrowed_and_resumed(run: Any) -> None:
    """Parts of the budget, tags and kinds of what is retrieved, a time of validity, the rest of a stream."""
    otter = run("add", "The otter sleeps by the river.", "--tag", "zoo").split()[0]
    heron = run("add", "河边有一只苍鹭。", "--tag", "lake", "--kind", "note").split()[0]
    words = ["context", "otter river 苍鹭", "--json"]

    def cited(*narrowing: str) -> set[str]:
        return {one["memoryId"] for one in json.loads(run(*words, *narrowing)).get("citations", [])}

    streamed = [json.loads(line) for line in run(*words, "--stream").splitlines()]
    resumed = [json.loads(line) for line in run(*words, "--resume", streamed[0]["cursor"]).splitlines()]
    shared = json.loads(run(*words, "--stream", "--share", "core=0.25", "--share", "long_term=0.75").splitlines()[0])

    assert resumed == streamed[1:]
    budgets = {one["section"]: one.get("budgetTokens", 0) for one in shared["plan"]["sections"]}
    assert budgets["CONTEXT_SECTION_LONG_TERM"] == pytest.approx(3 * budgets["CONTEXT_SECTION_GLOBAL_CORE"], abs=3)
    assert budgets["CONTEXT_SECTION_SESSION"] == 0
    assert cited() == {otter, heron}
    assert cited("--tag", "zoo") == {otter}
    assert cited("--kind", "note") == {heron}
    assert len(cited("--relevant-limit", "1")) == 1
    assert cited("--min-score", "1") == set()
    assert cited("--valid-at", "2001-01-01") == {otter, heron}
    for wrong in ("core", "core=much", "cores=0.5"):
        run(*words, "--share", wrong, code=2)


def test_a_search_can_be_refined(run: Any) -> None:
    """Near-duplicates once, novelty, words first, a time of validity; without a reranker none can be asked for."""
    for content in ("The otter sleeps.", "the otter sleeps", "水獭在睡觉。", "水獭在睡觉！"):
        run("add", content)

    plain = json.loads(run("search", "otter 水獭", "--json"))["hits"]
    collapsed = json.loads(run("search", "otter 水獭", "--json", "--collapse"))["hits"]
    diverse = json.loads(run("search", "otter 水獭", "--json", "--diverse"))["hits"]
    answers = [json.loads(line) for line in run("search", "otter 水獭", "--json", "--stream").splitlines()]
    shown = run("search", "otter 水獭", "--stream")

    assert (len(plain), len(collapsed), len(diverse)) == (4, 2, 4)
    assert [next(iter(answer)) for answer in answers] == ["early", "fused"]
    assert [hit["memory"]["id"] for hit in answers[-1]["fused"]["hits"]] == [hit["memory"]["id"] for hit in plain]
    assert shown.count("The otter sleeps.") == 2
    assert len(json.loads(run("search", "otter", "--json", "--valid-at", "2001-01-01"))["hits"]) == 4
    assert json.loads(run("search", "otter", "--json", "--min-score", "1")).get("hits", []) == []
    run("search", "otter", "--rerank", code=1)


def test_a_search_finds_parts_of_words_and_long_term_memories_first(run: Any) -> None:
    """The options --words and --long-term-first."""
    run("add", "The otter sleeps.", "--layer", "short-term")
    run("add", "Otters rest.")

    def found(*words: str) -> dict[str, dict[str, float]]:
        reply = json.loads(run("search", *words, "--json", "--explain"))
        return {
            hit["memory"]["content"]: {one["name"]: one["value"] for one in hit["explanation"].get("boosts", [])}
            for hit in reply.get("hits", [])
        }

    assert found("ott", "--mode", "keyword") == {}
    assert found("ott", "--mode", "keyword", "--words", "prefix").keys() == {"The otter sleeps.", "Otters rest."}
    assert found("tte", "--mode", "keyword", "--words", "substring").keys() == {"The otter sleeps.", "Otters rest."}
    preferred = found("otter", "--long-term-first")
    assert [content for content, boosts in preferred.items() if boosts.get("layer") == 1.25] == ["Otters rest."]


def test_what_a_start_loads_is_listed(run: Any) -> None:
    """Core memories and preferences, each with what it is."""
    assert run("load") == ""
    run("add", "Short sentences.", "--layer", "core")
    run("add", "喜欢绿茶", "--kind", "preference")

    lines = [line.split("\t") for line in run("load").splitlines()]

    assert [(line[0], line[-1]) for line in lines[1:]] == [("core", "Short sentences."), ("preference", "喜欢绿茶")]
    assert json.loads(run("load", "--json", "--limit", "1"))["core"][0]["content"] == "Short sentences."
