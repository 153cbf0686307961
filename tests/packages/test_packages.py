"""The client packages: each runs its own tests against real services."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.packages.guarded import Guarded
from tests.packages.language_builds import BUILD_SECONDS, TOOLS, Build, run
from tests.support.forked_process import ROOT
from tests.support.server_process import ServerProcess

SUITES = {
    "typescript": ("npx tsc -p tsconfig.test.json && node --test --test-timeout=60000 dist-test/", r"^# pass (\d+)$"),
    "go": ("go test -count=1 -v .", r"^--- PASS: "),
    "java": (
        "mvn --batch-mode surefire:test",
        r"^\[INFO\] Tests run: (\d+), Failures: 0, Errors: 0, Skipped: 0$",
    ),
}
"""The command that runs the tests of a built package, and the sign of those that passed."""

builds = pytest.mark.timeout(BUILD_SECONDS + 300)
each_package = pytest.mark.parametrize(
    "language", [pytest.param(name, marks=pytest.mark.xdist_group(f"package in {name}")) for name in SUITES]
)
"""One process builds a language once, in parallel with the others."""


@builds
@each_package
def test_a_package_passes_its_tests_against_a_service(
    language: str, build_of: Callable[[str], Build], server: ServerProcess, guarded: Guarded
) -> None:
    """Writes, reads, contexts, sessions, watches, errors, deadlines, TLS and rate limits; none is skipped."""
    build = build_of(language)
    command, passed = SUITES[language]

    done = run(
        ["bash", "-c", command], build.package,
        MEMSVC_TEST_ADDRESS=server.bound, MEMSVC_TEST_URL=server.url, MEMSVC_TEST_GUARDED_ADDRESS=guarded.address,
        MEMSVC_TEST_GUARDED_URL=guarded.url, MEMSVC_TEST_KEY=guarded.api_key, MEMSVC_TEST_CA=guarded.authority_file,
    )  # fmt: skip

    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-8000:]
    counts = re.findall(passed, output, re.MULTILINE)
    assert sum(int(count) if count.isdigit() else 1 for count in counts) >= 10, output[-8000:]
    assert "SKIP" not in output


@pytest.mark.parametrize("language", sorted(set(TOOLS) - {"python"}))
def test_a_package_has_the_licence_and_a_readme(language: str) -> None:
    """A published package contains both."""
    folder = ROOT / "packages" / language

    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (folder / "README.md").read_text(encoding="utf-8").startswith("# memsvc for ")


@pytest.mark.parametrize("name", ["packages/typescript", "examples/typescript"])
def test_locks_name_no_address(name: str) -> None:
    """Dependencies are pinned, and no registry is named."""
    lock = (ROOT / name / "package-lock.json").read_text(encoding="utf-8")

    assert "://" not in lock
    assert lock.count('"integrity"') > 10
