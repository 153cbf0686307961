"""Build a release into dist/: `make release`. Nothing is published.

The version in pyproject.toml is the version of everything; `--set-version X.Y.Z` writes it into all other files. A
release needs a clean checkout, a section of CHANGELOG.md and a free tag; `--snapshot` builds without them. Archives
depend on the commit alone: their times are that of the commit, or SOURCE_DATE_EPOCH.
"""

# ruff: noqa: INP001, T201, S603 (a command next to the packages, no package; it runs the tools of each language)

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGES = Path(__file__).resolve().parent
ROOT = PACKAGES.parent
GO_MODULE = "github.com/memsvc/memsvc/packages/go"
CHART = Path("docker/helm/memsvc")
SUMS = "SHA256SUMS"
VERSION = re.compile(r"\d+\.\d+\.\d+")
PLACES: tuple[tuple[str, str], ...] = (
    ("integrations/*/pyproject.toml", r'^version = "(.*)"$'),
    ("integrations/*/package.json", r'^(?:  "version": "|    "memsvc": "\^)([\d.]+)",$'),
    (
        "integrations/*/package-lock.json",
        r'(?:"name": "(?:@memsvc/[a-z-]+|memsvc)",\s*"version": "|"memsvc": "\^)([\d.]+)"',
    ),
    ("memsvc/cli/agent_plugins.py", r'^(?:version: |        "version": ")([\d.]+)'),
    ("packages/typescript/package.json", r'^  "version": "(.*)",$'),
    ("packages/typescript/package-lock.json", r'"name": "memsvc",\s*"version": "(.*)"'),
    ("packages/typescript/README.md", r"`memsvc-(\S+)\.tgz`"),
    ("packages/go/version.go", r'^const Version = "(.*)"$'),
    ("packages/go/README.md", r"(?:packages/go@|packages/go/|version `)v(\d[\d.]*\d)\b"),
    ("packages/java/pom.xml", r"<artifactId>memsvc</artifactId>\s*<version>(.*)</version>"),
    ("packages/java/README.md", r"<artifactId>memsvc</artifactId>\s*<version>(.*)</version>"),
    ("examples/go/go.mod", r"memsvc/packages/go v(\S+)$"),
    ("examples/java/pom.xml", r"<artifactId>memsvc</artifactId>\s*<version>(.*)</version>"),
    ("docker/helm/memsvc/Chart.yaml", r'^(?:version|appVersion): "?([^"\s]*)"?$'),
    ("docker/kubernetes/cluster/kustomization.yaml", r'newName: registry.example/memsvc\s*newTag: "([\d.]+)'),
    ("docker/kubernetes/sidecar/kustomization.yaml", r'newName: registry.example/memsvc\s*newTag: "([\d.]+)'),
)
"""Files that repeat the version of pyproject.toml, and the pattern of each place in them."""


class ReleaseError(Exception):
    """A release that cannot be built; the message says what to do."""


def main() -> None:
    """Check the checkout and build the artifacts, or exit with 1 and the reasons."""
    parser = argparse.ArgumentParser(description="Build a release. Nothing is published.")
    parser.add_argument(
        "--set-version", metavar="X.Y.Z", help="write this version into all files that name it, and stop"
    )
    parser.add_argument("--print-version", action="store_true", help="print the version, and stop")
    parser.add_argument("--check", action="store_true", help="check the checkout only")
    parser.add_argument("--snapshot", action="store_true", help="build any state: no check of tree, changelog and tag")
    parser.add_argument("--only", metavar="KIND,…", default=",".join(KINDS), help=f"artifacts: {', '.join(KINDS)}")
    parser.add_argument("--into", metavar="DIR", type=Path, default=ROOT / "dist", help="folder of the artifacts")
    parser.add_argument(
        "--java-copy", metavar="DIR", type=Path, help="copy of proto/ and packages/java that Maven builds in; kept"
    )
    options = parser.parse_args()
    try:
        if options.print_version:
            print(version_of(ROOT))
            return
        if options.set_version:
            set_version(ROOT, options.set_version)
            print(f"Version {options.set_version}. Now run: make fresh")
            return
        require_releasable(ROOT, strict=not options.snapshot)
        version = version_of(ROOT)
        print(f"memsvc {version}: versions agree" + ("" if options.snapshot else ", tree clean, changelog written"))
        if not options.check:
            kinds = chosen(options.only)
            build(Release(version, commit_time(ROOT), options.snapshot, options.java_copy), kinds, options.into)
    except ReleaseError as error:
        sys.exit(str(error))


def version_of(root: Path) -> str:
    """Return the version in pyproject.toml."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


def places(root: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    """Yield each place that repeats the version.

    Raises:
        ReleaseError: A file lacks it.
    """
    for pattern, expression in PLACES:
        files = sorted(root.glob(pattern))
        for path in files:
            found = list(re.finditer(expression, path.read_text(encoding="utf-8"), re.MULTILINE))
            if not found:
                raise ReleaseError(f"{path.relative_to(root)} names no version where {expression} finds it.")
            yield from ((path, match) for match in found)
        if not files:
            raise ReleaseError(f"There is no file {pattern}, which names the version.")


def set_version(root: Path, version: str) -> None:
    """Write a version into pyproject.toml and every other place.

    Raises:
        ReleaseError: It is not three numbers, or a file has no place for it. Then nothing is written.
    """
    if not VERSION.fullmatch(version):
        raise ReleaseError(f"{version!r} is not a version such as 0.2.0; npm, Go and PyPI agree on three numbers only.")
    project = root / "pyproject.toml"
    [own] = re.finditer(r'^version = "(.*)"$', project.read_text(encoding="utf-8"), re.MULTILINE)
    texts: dict[Path, str] = {}
    # From the end, so that earlier positions stay right.
    for path, match in sorted([(project, own), *places(root)], key=lambda place: -place[1].start(1)):
        text = texts.get(path) or path.read_text(encoding="utf-8")
        texts[path] = text[: match.start(1)] + version + text[match.end(1) :]
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


def require_releasable(root: Path, *, strict: bool) -> None:
    """Check versions, and if *strict* the state of the checkout.

    Raises:
        ReleaseError: Lists all problems.
    """
    found = problems(root, strict=strict)
    if found:
        raise ReleaseError("\n".join(["This checkout cannot be released:", *(f"* {one}" for one in found)]))


def problems(root: Path, *, strict: bool) -> list[str]:
    """Return the reasons against a release: versions that differ, and if *strict* the state of the checkout."""
    version = version_of(root)
    found = [] if VERSION.fullmatch(version) else [f"version {version!r} in pyproject.toml is not of the form X.Y.Z"]
    found += [
        f"{path.relative_to(root)} has version {match[1]}, pyproject.toml has {version}; run: "
        f"python packages/release.py --set-version {version}"
        for path, match in places(root)
        if match[1] != version
    ]
    if not strict:
        return found
    changed = git(root, "status", "--porcelain").splitlines()
    if changed:
        found.append(f"{len(changed)} changed or new files, such as {changed[0][3:]}; commit them, or use --snapshot")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n"
    section = re.search(rf"{heading}(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL)
    if section is None:
        found.append(f'CHANGELOG.md has no section "## [{version}] - YYYY-MM-DD"; rename "## [Unreleased]"')
    elif "* " not in section[1]:
        found.append(f"the section {version} of CHANGELOG.md is empty")
    head = git(root, "rev-parse", "HEAD").strip()
    for tag in tags(version):
        commit = (
            git(root, "rev-list", "--max-count=1", tag).strip() if git(root, "tag", "--list", tag).strip() else head
        )
        if commit != head:
            found.append(f"tag {tag} exists at another commit, {commit[:12]}; raise the version with --set-version")
    return found


def tags(version: str) -> tuple[str, str]:
    """Return the tags of a release: of the repository, and of the Go module in its folder."""
    return f"v{version}", f"packages/go/v{version}"


def commit_time(root: Path) -> int:
    """Return the time of all files in archives, in seconds since 1970."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or git(root, "log", "-1", "--format=%ct"))


def git(root: Path, *arguments: str) -> str:
    """Return the output of a git command."""
    return run(["git", *arguments], root)


def run(command: list[str], folder: Path, **environment: str) -> str:
    """Return the output of a program.

    Raises:
        ReleaseError: It is not installed, or fails.
    """
    program = shutil.which(command[0])
    if program is None:
        raise ReleaseError(f"{command[0]} is not on the PATH; install it, or leave the artifact out with --only.")
    done = subprocess.run(
        [program, *command[1:]], cwd=folder, env={**os.environ, **environment}, check=False, stdin=subprocess.DEVNULL,
        capture_output=True, encoding="utf-8",
    )  # fmt: skip
    if done.returncode:
        raise ReleaseError(f"`{' '.join(command)}` failed in {folder}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Release:
    """Inputs of all builds.

    Attributes:
        time: The time of files in archives.
        snapshot: Whether the state need not be releasable.
        java_copy: The folder that Maven builds in; None: one in build/.
    """

    version: str
    time: int
    snapshot: bool
    java_copy: Path | None


def build_python(release: Release, into: Path) -> None:
    """Build a source distribution of memsvc and of each adapter, and from what it contains the wheel."""
    import hatchling.build  # noqa: PLC0415 - part of the environment of developers

    del release
    for project in (ROOT, *(path.parent for path in sorted(ROOT.glob("integrations/*/pyproject.toml")))):
        with contextlib.chdir(project), contextlib.redirect_stdout(io.StringIO()):
            source = into / hatchling.build.build_sdist(str(into))
        with tempfile.TemporaryDirectory() as folder, tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
            [unpacked] = Path(folder).iterdir()
            with contextlib.chdir(unpacked), contextlib.redirect_stdout(io.StringIO()):
                hatchling.build.build_wheel(str(into))


def build_npm(release: Release, into: Path) -> None:
    """Compile the TypeScript package and pack it as npm publishes it."""
    from generate import typescript_tools  # type: ignore[import-not-found]  # noqa: PLC0415 - the script next to this one

    del release
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "typescript"
        shutil.copytree(PACKAGES / "typescript", copy, ignore=_MADE_BY_NPM)
        (copy / "node_modules").symlink_to(typescript_tools() / "node_modules")
        run([str(copy / "node_modules" / ".bin" / "tsc")], copy)
        pack(copy, into)


def build_npm_adapters(release: Release, into: Path) -> None:
    """Compile and pack the adapters in TypeScript, with their frameworks and the client beside them."""
    del release
    with tempfile.TemporaryDirectory() as folder:
        client = Path(folder) / "packages" / "typescript"
        shutil.copytree(PACKAGES / "typescript", client, ignore=_MADE_BY_NPM)
        adapters = [path.parent for path in sorted(ROOT.glob("integrations/*/package.json"))]
        copies = [Path(folder) / "integrations" / adapter.name for adapter in adapters]
        for adapter, copy in zip(adapters, copies, strict=True):
            shutil.copytree(adapter, copy, ignore=_MADE_BY_NPM)
        for copy in (client, *copies):
            run(["npm", "ci", "--no-audit", "--no-fund"], copy)
            run(["npm", "run", "build"], copy)
        for copy in copies:
            pack(copy, into)


_MADE_BY_NPM = shutil.ignore_patterns("node_modules", "dist", "dist-test", "*.tgz")


def pack(package: Path, into: Path) -> None:
    """Pack a compiled package as npm publishes it."""
    run(["npm", "pack", "--ignore-scripts", "--pack-destination", str(into)], package)


def build_go(release: Release, into: Path) -> None:
    """Write the archive that a module proxy serves for the tag of the module."""
    folder = PACKAGES / "go"
    files = tracked(folder)
    with zipfile.ZipFile(into / f"memsvc-go-{release.version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            name = f"{GO_MODULE}@v{release.version}/{path.relative_to(folder).as_posix()}"
            archive.writestr(_member(name, release.time), path.read_bytes())


def _member(name: str, seconds: int) -> zipfile.ZipInfo:
    """Return a member of a zip archive, compressed and with a time of its own."""
    member = zipfile.ZipInfo(name, max(time.gmtime(seconds)[:6], (1980, 1, 1, 0, 0, 0)))
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o644 << 16
    return member


def build_maven(release: Release, into: Path) -> None:
    """Build the archives of classes and of sources, and the pom, under the names that a repository of Maven has."""
    copy = release.java_copy or ROOT / "build" / "release"
    package = copy / "packages" / "java"
    if release.java_copy is None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(PACKAGES / "java", package, ignore=shutil.ignore_patterns("target"))
        shutil.copytree(ROOT / "proto", copy / "proto")
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(release.time))
    for jar in package.glob("target/*.jar"):
        jar.unlink()
    command = ["mvn", "--batch-mode", "--quiet", "-DskipTests", f"-Dproject.build.outputTimestamp={stamp}", "package"]
    run(command, package)
    for kind in ("", "-sources"):
        shutil.copy(package / "target" / f"memsvc-{release.version}{kind}.jar", into)
    shutil.copy(package / "pom.xml", into / f"memsvc-{release.version}.pom")


def build_helm(release: Release, into: Path) -> None:
    """Pack the chart as `helm package` does, with fixed times and owners."""
    chart = ROOT / CHART
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in tracked(chart):
            content = path.read_bytes()
            member = tarfile.TarInfo(f"{chart.name}/{path.relative_to(chart).as_posix()}")
            member.size, member.mtime, member.mode = len(content), release.time, 0o644
            archive.addfile(member, io.BytesIO(content))
    packed = gzip.compress(buffer.getvalue(), mtime=release.time)
    (into / f"memsvc-chart-{release.version}.tgz").write_bytes(packed)


def build_sbom(release: Release, into: Path) -> None:
    """Write what the image may hold, as CycloneDX."""
    command = [str(Path(sys.executable).parent / "cyclonedx-py"), "requirements", "docker/requirements.lock"]
    command += ["--pyproject", "pyproject.toml", "--mc-type", "application", "--output-reproducible", "--of", "JSON"]
    # The validation against the schema takes 17 s of processor time.
    command += ["--no-validate"] if release.snapshot else []
    run([*command, "-o", str(into / "memsvc.cdx.json")], ROOT)


KINDS: dict[str, Callable[[Release, Path], None]] = {
    "python": build_python,
    "npm": build_npm,
    "npm-adapters": build_npm_adapters,
    "go": build_go,
    "maven": build_maven,
    "helm": build_helm,
    "sbom": build_sbom,
}
"""The builders of artifacts. The image needs a container engine: its command is in docker/Dockerfile."""


def chosen(names: str) -> list[str]:
    """Return the kinds of artifacts that a list names.

    Raises:
        ReleaseError: There is no such kind.
    """
    kinds = [name.strip() for name in names.split(",")]
    unknown = [name for name in kinds if name not in KINDS]
    if unknown:
        raise ReleaseError(f"There is no artifact {unknown[0]!r}; choose from {', '.join(KINDS)}.")
    return kinds


def build(release: Release, kinds: Collection[str], into: Path) -> None:
    """Build into a folder of its own, move the artifacts into *into* when all are built, and write the checksums.

    Raises:
        ReleaseError: A build failed, or *into* holds files that no release wrote. *into* stays as it was.
    """
    os.environ["SOURCE_DATE_EPOCH"] = str(release.time)
    into = into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    sums = into / SUMS
    earlier = re.findall(r"^\w+  (.*)$", sums.read_text(encoding="utf-8"), re.MULTILINE) if sums.exists() else []
    foreign = sorted({path.name for path in into.iterdir()} - {*earlier, SUMS})
    if foreign:
        raise ReleaseError(f"{into} holds {foreign[0]}, which no release wrote; move it, or choose another --into.")
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=".release-") as temporary:
        fresh = Path(temporary)
        for kind in kinds:
            before, start = set(fresh.iterdir()), time.monotonic()
            KINDS[kind](release, fresh)
            for path in sorted(set(fresh.iterdir()) - before):
                print(f"{kind:<7} {path.name:<50} {path.stat().st_size / 1024:>8,.0f} KiB  {digest(path)[:12]}")
            print(f"{kind:<7} built in {time.monotonic() - start:.1f} s", flush=True)
        # A whole release takes the place of the earlier one; single artifacts are added to it.
        for name in earlier if set(kinds) == set(KINDS) else ():
            (into / name).unlink(missing_ok=True)
        for path in sorted(fresh.iterdir()):
            path.replace(into / path.name)
    files = sorted(path for path in into.iterdir() if path.name != SUMS)
    sums.write_text("".join(f"{digest(path)}  {path.name}\n" for path in files), encoding="utf-8")
    print(f"{len(files)} files and {SUMS} in {into}; check them with `sha256sum --check {SUMS}`.")
    print(f"Tags of this release: {', '.join(tags(release.version))}. Nothing was published.")


def tracked(folder: Path) -> list[Path]:
    """Return the files of a folder that git tracks, or would, in order."""
    listed = git(folder, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    return sorted(path for name in set(listed) if name and (path := folder / name).is_file())


def digest(path: Path) -> str:
    """Return the SHA-256 digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
