"""The agents of examples/: each is built and run as its README says, against real servers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from google.protobuf.json_format import MessageToDict

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.packages.guarded import Guarded
from tests.packages.language_builds import BUILD_SECONDS, TOOLS, Build, Commands
from tests.support.forked_process import ROOT
from tests.support.rpc import TIMEOUT
from tests.support.server_process import ServerProcess, Stubs

HOTEL = "The hotel in Lisbon is two minutes from the metro station Baixa-Chiado."
MOVED = "The hotel in Lisbon moved us to its house in Alfama, five minutes from the metro."
ALLERGY = "我对花生过敏，点菜前要先告诉餐厅。"
SEAT = "Ann wants a window seat on long flights."
FADO = "找一家可以听法多音乐的餐厅。"
AGENTS = (
    "python/agent.py",
    "go/main.go",
    "typescript/src/agent.ts",
    "java/src/main/java/memsvc/examples/Agent.java",
)

each_language = pytest.mark.parametrize(
    "language", [pytest.param(name, marks=pytest.mark.xdist_group(f"package in {name}")) for name in TOOLS]
)
"""One process builds a language once, in parallel with the others."""
builds = pytest.mark.timeout(BUILD_SECONDS + 300)


def lines_after(title: str, text: str) -> list[str]:
    """Return the indented lines below the line that begins with *title*."""
    below = iter(f"\n{text}".partition(f"\n{title}")[2].splitlines()[1:])
    return list(indented(below))


def indented(lines: Iterator[str]) -> Iterator[str]:
    """Yield lines until one is not indented."""
    for line in lines:
        if not line.startswith("  "):
            return
        yield line.strip()


def scores_and_contents(lines: list[str]) -> list[tuple[float, str]]:
    """Return what was printed of hits."""
    return [(float(score), content) for score, _, content in (line.partition(" ") for line in lines)]


@builds
@each_language
def test_an_agent_does_what_the_readme_says(
    language: str, build_of: Callable[[str], Build], server: ServerProcess, stubs: Stubs
) -> None:
    """It writes, is rejected, searches, builds a context and watches; the service has what it wrote."""
    done = build_of(language).run_example(MEMSVC_ADDRESS=server.url if language == "typescript" else server.bound)

    output = re.sub(r"\b(?:WRITE_OUTCOME|MEMORY_CHANGE_ACTION|CONTEXT_SECTION)_", "", done.stdout)
    assert (done.returncode, done.stderr) == (0, ""), output + done.stderr
    writes = [f"CREATED {HOTEL}", *(f"CREATED {content}" for content in (ALLERGY, SEAT, FADO)), f"UPDATED {MOVED}"]
    assert [line.strip() for line in output.splitlines()[: len(writes)]] == writes
    assert lines_after("A wrong request is rejected: ", output) == [
        "memory.content: must have 1 to 1000000 characters, not 0",
        "memory.importance: must be 1 to 5, or 0 for the default",
    ]
    for query, first, second in (("Where is our hotel?", MOVED, ALLERGY), ("餐厅要注意什么？", ALLERGY, MOVED)):
        [best, other] = scores_and_contents(lines_after(f'Found for "{query}":', output))
        assert (best[1], other[1]) == (first, second)
        assert 1 >= best[0] > other[0] >= 0
    context = output.partition("\nContext:\n")[2].partition("\nThe watch saw")[0]
    assert [content for content in (ALLERGY, MOVED, SEAT, FADO) if context.count(content) != 1] == []
    changes = [f"CREATED 1 {content}" for content in (HOTEL, ALLERGY, SEAT, FADO)]
    assert lines_after("The watch saw:", output) == [*changes, f"UPDATED 2 {MOVED}"]
    assert f"Resumed after the first of them: {ALLERGY}" in output
    check_stored(language, output, stubs)


def check_stored(language: str, output: str, stubs: Stubs) -> None:
    """Compare the writes of an agent with the memories of the service."""
    [project] = re.findall(r"^Done: project (\S+)$", output, re.MULTILINE)
    scope = types_pb.Scope(user_id="ann", project_id=project)
    request = memory_pb.ListMemoriesRequest(scope=scope, order_by="create_time asc")
    stored = stubs.memory.ListMemories(request, timeout=TIMEOUT).memories
    assert [memory.content for memory in stored] == [MOVED, ALLERGY, SEAT, FADO]
    assert {memory.scope.agent_id for memory in stored} == {f"planner-{language}"}
    assert MessageToDict(stored[3].metadata) == {"party": 2.0, "booked": False}
    assert [memory.kind for memory in stored[2:]] == [types_pb.MEMORY_KIND_PREFERENCE, types_pb.MEMORY_KIND_TASK]
    assert stored[1].layer == types_pb.MEMORY_LAYER_CORE


@builds
@each_language
def test_an_agent_waits_for_the_rate_limit_of_its_key(
    language: str, build_of: Callable[[str], Build], guarded: Guarded
) -> None:
    """The key allows fewer calls in a second than the agent makes over TLS, so that the client has to wait."""
    address = guarded.url if language == "typescript" else guarded.address
    done = build_of(language).run_example(
        MEMSVC_ADDRESS=address, MEMSVC_TLS_CA=guarded.authority_file, MEMSVC_API_KEY=guarded.api_key
    )

    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert "\nDone: project " in done.stdout


@builds
@each_language
def test_an_agent_that_cannot_call_prints_one_line(
    language: str, build_of: Callable[[str], Build], guarded: Guarded
) -> None:
    """Without a key it is UNAUTHENTICATED, without a service the line has the address; there is no stack trace."""
    address = guarded.url if language == "typescript" else guarded.address
    cases: list[tuple[str, dict[str, str], str]] = [
        (address, {"MEMSVC_TLS_CA": guarded.authority_file}, "API_KEY_REQUIRED"),
        (address.replace("https:", "http:"), {}, guarded.address.rpartition(":")[0]),
        ("127.0.0.1:1", {}, "127.0.0.1:1"),
        ("no address", {}, "no address"),
    ]
    build = build_of(language)
    # In parallel: each of them tries again for a while.
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda case: build.run_example(MEMSVC_ADDRESS=case[0], **case[1]), cases))

    for done, (_, _, named) in zip(results, cases, strict=True):
        assert (done.returncode, done.stdout) == (1, "")
        [line] = done.stderr.splitlines()
        assert named in line


@pytest.mark.parametrize("path", AGENTS)
def test_an_agent_is_short(path: str) -> None:
    """A program of fewer than 80 lines, because the packages do the rest."""
    assert len((ROOT / "examples" / path).read_text(encoding="utf-8").splitlines()) < 80


@pytest.mark.xdist_group("package in python")
def test_plain_stubs_write_find_and_are_refused(server: ServerProcess) -> None:
    """The generated stubs alone are enough."""
    command = [sys.executable, "examples/python/plain_stubs.py", server.bound]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=TIMEOUT, check=True)

    found, refused = done.stdout.splitlines()
    assert found.endswith(ALLERGY)
    assert refused == "query: must be set, or vector or keywords"


@pytest.mark.xdist_group("package in python")
def test_a_conversation_over_three_sessions_knows_what_changed(server: ServerProcess) -> None:
    """Eight memories of seventeen messages; contexts mark what is outdated, across languages, and nothing current."""
    command = [sys.executable, "-W", "error", "examples/python/three_sessions.py", server.bound]

    told = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=TIMEOUT, check=True).stdout

    assert [len(lines_after(f"Session {number}", told)) for number in (1, 2, 3)] == [3, 3, 2]
    for question, current, outdated in (
        ("Where do I live?", "我搬到柏林了", "I live in Hamburg"),
        ("What should I cook tonight?", "I eat fish again", "I'm vegetarian"),
        ("我的牙医是哪天?", "November 27", "November 20"),
    ):
        lines = lines_after(question, told)
        [now] = [line for line in lines if current in line]
        assert "(outdated" not in now
        assert all("(outdated" in line for line in lines if outdated in line)
        assert any("以后请用中文回答我" in line for line in lines)
        assert not any("(outdated" in line for line in lines if "花生" in line)
        shown = {handle for line in lines for handle in re.findall(r"^- (\[m\d+\])", line)}
        assert {handle for line in lines for handle in re.findall(r"see (\[m\d+\])", line)} <= shown


@pytest.mark.parametrize("language", TOOLS)
def test_the_readme_names_the_commands_that_are_tested(language: str) -> None:
    """What the table in examples/README.md says is what the tests run."""
    commands = Commands.of(language)
    table = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    [row] = re.findall(rf"^\| \[[^]]*\]\({language}\) \|.*$", table, re.MULTILINE)

    assert f"| `{commands.build}` | `{commands.run}` |" in row
