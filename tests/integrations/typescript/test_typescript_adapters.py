"""The adapters in TypeScript: each runs its own tests, its example and its part of the guide against a real service."""

from __future__ import annotations

import functools
import json
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import HTTP_URL
from tests.packages.language_builds import ADAPTER_BUILD, BUILD_SECONDS, build_adapter, run
from tests.support.forked_process import ROOT
from tests.support.server_process import FAST, HTTP, ServerProcess

PACKAGES = {"vercel_ai": "@memsvc/ai-sdk", "mastra": "@memsvc/mastra"}
EXAMPLES = {
    "vercel_ai": ["My dog is called Rex. -> I will remember that.", "What is my dog called? -> Your dog is Rex."],
    "mastra": ["My dog is called Rex. -> Hello, Rex.", "What is my dog called? -> Your dog is Rex."],
}
QUIET = {"MASTRA_TELEMETRY_DISABLED": "1"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server with the real engines and the fast embedder, over HTTP."""
    with ServerProcess(tmp_path_factory.mktemp("http") / "data", FAST | HTTP) as running:
        yield running


built = functools.cache(build_adapter)
builds = pytest.mark.timeout(BUILD_SECONDS + 300)
each_adapter = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xdist_group(f"adapter {name}")) for name in PACKAGES]
)
"""One process builds an adapter once."""


@builds
@each_adapter
def test_an_adapter_passes_its_tests_against_a_service(name: str, server: ServerProcess) -> None:
    """Tools, contexts, turns, streams, isolation, outdated memories and failures; none is skipped."""
    folder = built(name)
    command = "node --test --test-reporter=tap --test-timeout=60000 test/"

    done = run(["bash", "-c", command], folder, MEMSVC_TEST_URL=server.url, **QUIET)

    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-8000:]
    [passed] = re.findall(r"^# pass (\d+)$", output, re.MULTILINE)
    assert int(passed) >= 5
    assert re.findall(r"^# skipped 0$", output, re.MULTILINE)


@builds
@each_adapter
def test_an_example_remembers_an_earlier_conversation(name: str, server: ServerProcess) -> None:
    """The scripted model answers from the memories in its prompt."""
    done = run(["node", "example.mjs", server.url], built(name), **QUIET)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == EXAMPLES[name]


@builds
@each_adapter
def test_the_program_of_the_guide_compiles_and_runs(name: str, server: ServerProcess) -> None:
    """In strict mode, with the types of the framework."""
    folder = built(name)
    guide = (ROOT / "docs/guides/frameworks.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```typescript\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    [program] = [program for program in programs if f'"{PACKAGES[name]}"' in program]
    (folder / "guide.ts").write_text(program.replace(HTTP_URL, server.url), encoding="utf-8")
    options = (
        "--strict --target es2022 --module nodenext --lib es2023,esnext.disposable,dom --skipLibCheck --types node"
    )

    compiled = run(["npx", "tsc", "--ignoreConfig", *options.split(), "guide.ts"], folder)
    assert compiled.returncode == 0, compiled.stdout
    done = run(["node", "guide.js"], folder, **QUIET)

    assert (done.returncode, done.stderr) == (0, "")
    assert "oboe" in done.stdout


@each_adapter
def test_an_adapter_has_a_lock_and_the_versions_of_the_client(name: str) -> None:
    """Dependencies are pinned, no registry is named, and the README names the tested command."""
    folder: Path = ROOT / "integrations" / name
    lock = (folder / "package-lock.json").read_text(encoding="utf-8")
    package = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    client = json.loads((ROOT / "packages/typescript/package.json").read_text(encoding="utf-8"))

    assert "://" not in lock
    assert lock.count('"integrity"') > 10
    assert (package["name"], package["version"]) == (PACKAGES[name], client["version"])
    assert package["peerDependencies"]["memsvc"] == f"^{client['version']}"
    assert ADAPTER_BUILD in (folder / "README.md").read_text(encoding="utf-8")


@builds
@each_adapter
def test_an_adapter_is_packed(name: str, tmp_path: Path) -> None:
    """With what it was compiled to, and nothing else."""
    run_packing(built(name), tmp_path)

    [packed] = tmp_path.glob("*.tgz")
    with tarfile.open(packed) as archive:
        names = set(archive.getnames())
    assert {"package/README.md", "package/package.json", "package/dist/index.js", "package/dist/index.d.ts"} <= names
    assert {each.split("/")[1] for each in names} <= {"LICENSE", "README.md", "package.json", "dist"}


def run_packing(package: Path, into: Path) -> None:
    """Pack a package as a release does."""
    script = f"import sys; from pathlib import Path; sys.path.insert(0, {str(ROOT / 'packages')!r}); import release; "
    script += f"release.pack(Path({str(package)!r}), Path({str(into)!r}))"
    done = run([sys.executable, "-c", script], ROOT)
    assert done.returncode == 0, done.stderr
