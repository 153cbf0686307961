"""A release: versions from one place, the checks before it, and a dry run that builds every artifact."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path
from types import ModuleType

import helm_python
import pytest
import yaml

from tests.packages.language_builds import BUILD_SECONDS, MAVEN, Build
from tests.support.forked_process import ROOT

SCRIPT = ROOT / "packages" / "release.py"
OTHER = "7.8.9"


@pytest.fixture(scope="module")
def release() -> ModuleType:
    """The command as a module."""
    spec = importlib.util.spec_from_file_location("release", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["release"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(release: ModuleType, tmp_path: Path) -> Path:
    """A repository with the files that name the version, and a changelog that has a section for it."""
    root = tmp_path / "checkout"
    names = {"pyproject.toml", "CHANGELOG.md"} | {path.relative_to(ROOT).as_posix() for path, _ in release.places(ROOT)}
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    changes = f"# Changelog\n\n## [Unreleased]\n\n## [{release.version_of(ROOT)}] - 2026-11-26\n\n### Added\n\n* All.\n"
    (root / "CHANGELOG.md").write_text(changes)
    git(root, "init", "--quiet", "--initial-branch", "main")
    commit(root)
    return root


def git(root: Path, *arguments: str) -> None:
    """Run git with an author of its own."""
    names = {
        f"GIT_{role}_{what}": "memsvc@example.com" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    subprocess.run(["git", *arguments], cwd=root, env={**os.environ, **names}, check=True)


def commit(root: Path) -> None:
    """Commit all files."""
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "release: prepare")


def test_every_file_has_the_version_of_the_service(release: ModuleType) -> None:
    """Packages, adapters, chart, manifests and the pages that name it."""
    assert release.problems(ROOT, strict=False) == []
    named = {path.relative_to(ROOT).as_posix() for path, _ in release.places(ROOT)}
    assert len(named) > 15
    adapters = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("integrations/*/README.md")}
    assert len(adapters) > 5
    assert all({f"{one}/pyproject.toml", f"{one}/package.json"} & named for one in adapters)


def test_no_other_file_names_the_version(release: ModuleType) -> None:
    """A place that a new version would miss is found here. Files that `make fresh` writes take it from pyproject.toml."""
    version = release.version_of(ROOT)
    command = [
        "git",
        "grep",
        "--name-only",
        "--fixed-strings",
        "--word-regexp",
        version,
        "--",
        "docker",
        "docs",
        "examples",
    ]
    command += ["integrations", "packages", "memsvc/*.py", "README.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False).stdout.split()
    known = {path.relative_to(ROOT).as_posix() for path, _ in release.places(ROOT)}

    wrong = [
        name
        for name in set(listed) - known
        if not name.startswith(("docs/reference/", "packages/typescript/src/gen/", "packages/go/memsvc/"))
        and not name.endswith((".lock", "package-lock.json", "go.sum"))
    ]
    assert wrong == ["examples/typescript/package.json"]


def test_a_version_is_set_everywhere(release: ModuleType, checkout: Path) -> None:
    """In one step; a wrong one is refused, and nothing is written."""
    before = release.version_of(checkout)
    for wrong in ("1.2", "v1.2.3", "1.2.3-rc.1", "1.2.3rc1"):
        with pytest.raises(release.ReleaseError, match="is not a version such as"):
            release.set_version(checkout, wrong)
    assert release.version_of(checkout) == before

    release.set_version(checkout, OTHER)

    assert release.version_of(checkout) == OTHER
    assert {match[1] for _, match in release.places(checkout)} == {OTHER}
    assert f"packages/go/v{OTHER}" in (checkout / "packages/go/README.md").read_text(encoding="utf-8")
    assert f'newTag: "{OTHER}-postgres-s3"' in (checkout / "docker/kubernetes/cluster/kustomization.yaml").read_text()
    chart = yaml.safe_load((checkout / "docker/helm/memsvc/Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (OTHER, OTHER)


def test_a_prepared_checkout_can_be_released(release: ModuleType, checkout: Path) -> None:
    """Also for a second time from the tagged commit."""
    assert release.problems(checkout, strict=True) == []
    for tag in release.tags(release.version_of(checkout)):
        git(checkout, "tag", tag)
    assert release.problems(checkout, strict=True) == []


def test_all_problems_of_a_checkout_are_listed(release: ModuleType, checkout: Path) -> None:
    """Each with what to do: files that are not committed, other versions, the changelog, a tag that is taken."""
    version = release.version_of(checkout)
    git(checkout, "tag", f"v{version}")
    (checkout / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## [{version}] - 2026-11-26\n\n## [0.0.1] - 2026-01-01\n\n* x\n"
    )
    commit(checkout)
    (checkout / "new.txt").touch()
    go = checkout / "packages/go/version.go"
    go.write_text(go.read_text().replace(version, OTHER))

    found = release.problems(checkout, strict=True)

    assert len(found) == 4
    for part in (
        f"packages/go/version.go has version {OTHER}, pyproject.toml has {version}; run: ",
        "2 changed or new files, such as packages/go/version.go; commit them",
        f"the section {version} of CHANGELOG.md is empty",
        f"tag v{version} exists at another commit",
    ):
        assert [one for one in found if part in one], (part, found)
    assert len(release.problems(checkout, strict=False)) == 1
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n* x\n")
    assert any("CHANGELOG.md has no section" in one for one in release.problems(checkout, strict=True))


def test_the_command_says_what_is_wrong(release: ModuleType, tmp_path: Path) -> None:
    """In one line and with exit code 1: a kind that is unknown, a folder with files of others, a missing tool."""
    (tmp_path / "mine.txt").touch()
    results = [
        run_release("--only", "npm,deb", into=tmp_path / "dist"),
        run_release("--only", "go", into=tmp_path),
        run_release("--only", "go", into=tmp_path / "dist", PATH="/nonexistent", SOURCE_DATE_EPOCH="1000000000"),
    ]

    assert [done.returncode for done in results] == [1, 1, 1]
    assert [done.stderr for done in results] == [
        "There is no artifact 'deb'; choose from python, npm, npm-adapters, go, maven, helm, sbom.\n",
        f"{tmp_path} holds mine.txt, which no release wrote; move it, or choose another --into.\n",
        "git is not on the PATH; install it, or leave the artifact out with --only.\n",
    ]
    assert [path.name for path in tmp_path.iterdir() if path.name != "dist"] == ["mine.txt"]
    assert list((tmp_path / "dist").iterdir()) == []


def run_release(*arguments: str, into: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command for the state that is here."""
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--snapshot", "--into", str(into), *arguments], cwd=ROOT, check=False,
        env={**os.environ, "MAVEN_OPTS": MAVEN, **environment}, capture_output=True, encoding="utf-8",
        timeout=BUILD_SECONDS,
    )  # fmt: skip


@pytest.mark.timeout(BUILD_SECONDS + 300)
@pytest.mark.xdist_group("package in java")
def test_a_dry_run_builds_everything(build_of: Callable[[str], Build], release: ModuleType, tmp_path: Path) -> None:
    """Each artifact holds what its registry needs, the checksums are right, and a second run repeats the bytes."""
    missing = [tool for tool in ("npm", "mvn") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"a release needs {', '.join(missing)} on the PATH")
    into, version = tmp_path / "dist", release.version_of(ROOT)

    # The adapters in TypeScript install their frameworks, for minutes: their own tests pack them.
    kinds = ",".join(one for one in release.KINDS if one != "npm-adapters")
    done = run_release("--java-copy", str(build_of("java").root), "--only", kinds, into=into)

    assert done.returncode == 0, done.stderr
    assert "Nothing was published." in done.stdout
    names = {path.name for path in into.iterdir()}
    adapters = {f"memsvc_{path.parent.name}" for path in ROOT.glob("integrations/*/pyproject.toml")}
    expected = {f"{name}-{version}{end}" for name in {"memsvc", *adapters} for end in ("-py3-none-any.whl", ".tar.gz")}
    expected |= {f"memsvc-{version}{end}" for end in (".tgz", ".jar", "-sources.jar", ".pom")}
    assert names == expected | {
        f"memsvc-chart-{version}.tgz",
        f"memsvc-go-{version}.zip",
        "memsvc.cdx.json",
        "SHA256SUMS",
    }
    sums = dict(line.split("  ")[::-1] for line in (into / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        name: hashlib.sha256((into / name).read_bytes()).hexdigest() for name in names if name != "SHA256SUMS"
    }
    for name in names - {"SHA256SUMS"}:
        assert name in done.stdout
    check_distributions(into, version)
    check_archives(into, version)

    # Without those of tools that take long: npm and Maven have times of their own for archives.
    repeated = run_release("--only", "python,go,helm", into=tmp_path / "again")
    assert repeated.returncode == 0, repeated.stderr
    again = dict(line.split("  ")[::-1] for line in (tmp_path / "again" / "SHA256SUMS").read_text().splitlines())
    assert len(again) == 2 * (1 + len(adapters)) + 2
    assert again.items() <= sums.items()


def check_distributions(into: Path, version: str) -> None:
    """Check what is in the distributions of Python."""
    for wheel in into.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            header = Parser().parsestr(archive.read(metadata).decode())
            assert header["Version"] == version
            assert header["License-Expression"] == "Apache-2.0"
            assert any(name.endswith("/py.typed") for name in archive.namelist())
            if wheel.name.startswith("memsvc-"):
                parts = {name.partition("/")[0] for name in archive.namelist()}
                assert parts == {"memsvc", "memsvc_backends", f"memsvc-{version}.dist-info"}
                assert "memsvc/proto/memsvc/v1/memory_service.proto" in archive.namelist()
    with tarfile.open(into / f"memsvc-{version}.tar.gz") as archive:
        parts = {name.split("/")[1] for name in archive.getnames()}
    assert parts - {".gitignore", "PKG-INFO"} == {
        "CHANGELOG.md", "LICENSE", "README.md", "backends", "memsvc", "proto", "pyproject.toml",
    }  # fmt: skip


def check_archives(into: Path, version: str) -> None:
    """Check what is in the archives of the other languages, the chart and the bill of materials."""
    with tarfile.open(into / f"memsvc-{version}.tgz") as archive:
        names = set(archive.getnames())
        packed = archive.extractfile("package/package.json")
        assert packed
        assert json.load(packed)["version"] == version
    assert {"package/LICENSE", "package/README.md", "package/dist/node.js", "package/dist/index.d.ts"} <= names
    with zipfile.ZipFile(into / f"memsvc-go-{version}.zip") as archive:
        files = {name.partition(f"@v{version}/")[2] for name in archive.namelist()}
        assert all(name.startswith("github.com/memsvc/memsvc/packages/go@") for name in archive.namelist())
    assert {"go.mod", "LICENSE", "client.go", "memsvc/v1/types.pb.go"} <= files
    for kind, member in (("", "io/memsvc/Memsvc.class"), ("-sources", "io/memsvc/Memsvc.java")):
        with zipfile.ZipFile(into / f"memsvc-{version}{kind}.jar") as archive:
            assert {member, "META-INF/LICENSE"} <= set(archive.namelist())
    with helm_python.Chart.load(into / f"memsvc-chart-{version}.tgz") as chart:
        assert (chart.metadata["version"], chart.metadata["appVersion"]) == (version, version)
        assert len(chart.render(name="memsvc")) == 4
    assert json.loads((into / "memsvc.cdx.json").read_text())["metadata"]["component"]["version"] == version


def test_the_workflow_runs_targets_that_exist_and_publishes_nothing() -> None:
    """Every `make` of the workflow has a target; no step pushes, uploads to a registry or asks for a secret."""
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)

    named = {name for command in commands for name in re.findall(r"\bmake ([a-z-]+)", command)}
    assert {"release", "test"} <= named
    assert named <= set(targets)
    assert workflow["permissions"] == {"contents": "read"}
    assert re.findall(r"secrets\.|\bpush\b.*registry|npm publish|twine|mvn deploy|helm push|docker push", text) == []
