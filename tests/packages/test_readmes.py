"""The programs in the READMEs of the packages, run as a user does: with the packed package, against a service."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from tests.docs.pages import ADDRESS, HTTP_URL
from tests.packages.language_builds import BUILD_SECONDS, Build, run
from tests.support.forked_process import ROOT
from tests.support.server_process import ServerProcess

UPLOADED = "Sunscreen, hat"
FENCES = {"typescript": "typescript", "go": "go", "java": "java"}
MODULE = "github.com/memsvc/memsvc/packages/go"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

pytestmark = pytest.mark.timeout(BUILD_SECONDS + 300)


def programs(page: Path, language: str) -> list[str]:
    """Return the blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def _of_new_user(program: str) -> str:
    """Return a program with a user of its own: what another language has stored is not remembered again."""
    return program.replace('"mia"', f'"mia-{uuid4()}"')


def check(outputs: list[str]) -> None:
    """Compare the outputs of the programs of a README: a search and a context, perhaps a session or a file, and an error."""
    ten, *others, error = outputs
    session = [output for output in others if output != UPLOADED]
    assert re.search(r"^0\.\d\d We fly to Lisbon on May 3\.$", ten, re.MULTILINE)
    assert re.search(r"^- .*我对花生过敏。$", ten, re.MULTILINE)
    for output in session:
        assert re.search(r"^.*I moved to Porto\..*$", output, re.MULTILINE)
        assert "remembered: I moved to Porto." in output
        assert re.search(r"^committed: .+ \S+$", output, re.MULTILINE)
    assert "INVALID_REQUEST" in error
    assert "memory.importance" in error


def output_of(command: list[str], folder: Path, **environment: str) -> str:
    """Return the output of a program that must succeed."""
    done = run(command, folder, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.xdist_group("package in typescript")
def test_programs_in_typescript_use_the_packed_package(
    build_of: Callable[[str], Build], server: ServerProcess, tmp_path: Path
) -> None:
    """`npm pack` makes what `npm install` takes; the programs compile in strict mode and run."""
    package = build_of("typescript").package
    [packed] = json.loads(
        output_of(["npm", "pack", "--json", "--ignore-scripts", "--pack-destination", str(tmp_path)], package)
    )
    names = {file["path"] for file in packed["files"]}
    assert {"LICENSE", "README.md", "package.json", "dist/index.js", "dist/node.d.ts"} <= names
    assert {name.partition("/")[0] for name in names} == {"LICENSE", "README.md", "package.json", "dist"}
    (tmp_path / "package.json").write_text('{"private": true, "type": "module"}')
    output_of(["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", packed["filename"]], tmp_path)
    texts = programs(package / "README.md", "typescript")
    for number, text in enumerate(texts):
        (tmp_path / f"program{number}.ts").write_text(
            _of_new_user(text).replace(HTTP_URL, server.url), encoding="utf-8"
        )
    options = "--strict --target es2022 --module nodenext --lib es2023,esnext.disposable,dom --skipLibCheck --types"
    compiler = package / "node_modules" / ".bin" / "tsc"
    output_of([str(compiler), *options.split(), "", *(f"program{number}.ts" for number in range(len(texts)))], tmp_path)

    check([output_of(["node", f"program{number}.js"], tmp_path) for number in range(len(texts))])


@pytest.mark.xdist_group("package in go")
def test_programs_in_go_use_the_module_of_a_tag(
    build_of: Callable[[str], Build], server: ServerProcess, tmp_path: Path
) -> None:
    """`go get` takes the module at its version from a proxy, with all packages that it needs; the programs run."""
    package = build_of("go").package
    publish(package, tmp_path / "proxy")
    downloaded = output_of(["go", "env", "GOMODCACHE"], package).strip()
    settings = {
        "GOPROXY": f"file://{tmp_path / 'proxy'},file://{downloaded}/cache/download",
        "GONOSUMDB": "*",
        "GOMODCACHE": str(tmp_path / "modules"),
        "GOFLAGS": "-mod=mod -modcacherw",
    }
    texts = programs(package / "README.md", "go")
    for number, text in enumerate(texts):
        folder = tmp_path / f"program{number}"
        folder.mkdir()
        (folder / "go.mod").write_text("module program\n\ngo 1.26.0\n")
        (folder / "main.go").write_text(_of_new_user(text).replace(ADDRESS, server.bound), encoding="utf-8")
    [getting] = re.findall(r"^(go get .*)$", (package / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    output_of(getting.split(), tmp_path / "program0", **settings)
    listed = output_of(["go", "list", "-deps", "."], tmp_path / "program0", **settings).split()
    assert {MODULE, f"{MODULE}/memsvc/v1"} <= set(listed)

    # The same files, from the folder in which they are compiled already.
    outputs = []
    for folder in (tmp_path / f"program{number}" for number in range(len(texts))):
        output_of(["go", "mod", "edit", f"-require={MODULE}@v{VERSION}", f"-replace={MODULE}={package}"], folder)
        outputs.append(output_of(["go", "run", "-mod=mod", "."], folder))
    check(outputs)


def publish(package: Path, proxy: Path) -> None:
    """Write the files that a proxy serves for the tag of a module."""
    folder = proxy / MODULE / "@v"
    folder.mkdir(parents=True)
    (folder / "list").write_text(f"v{VERSION}\n")
    (folder / f"v{VERSION}.info").write_text(json.dumps({"Version": f"v{VERSION}", "Time": "2026-01-01T00:00:00Z"}))
    (folder / f"v{VERSION}.mod").write_bytes((package / "go.mod").read_bytes())
    with zipfile.ZipFile(folder / f"v{VERSION}.zip", "w") as archive:
        for path in sorted(package.rglob("*")):
            if path.is_file():
                archive.write(path, f"{MODULE}@v{VERSION}/{path.relative_to(package)}")


@pytest.mark.xdist_group("package in java")
def test_programs_in_java_use_the_installed_artifact(
    build_of: Callable[[str], Build], server: ServerProcess, tmp_path: Path
) -> None:
    """The programs run with the archive of the example, which contains the artifact and its dependencies."""
    build = build_of("java")
    outputs = []
    for text in programs(build.package / "README.md", "java"):
        [name] = re.findall(r"^public class (\w+)", text, re.MULTILINE)
        source = tmp_path / f"{name}.java"
        source.write_text(text.replace(ADDRESS, server.bound), encoding="utf-8")
        archive = str(build.example / "target" / "memsvc-agent.jar")
        java = ["java", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", archive, str(source)]
        outputs.append(output_of(java, tmp_path))
    check(outputs)


@pytest.mark.parametrize("language", FENCES)
def test_the_readme_shows_the_lines_of_the_package(language: str) -> None:
    """Each line of the short programs in README.md is in the program that runs, in the same order."""
    [shown] = programs(ROOT / "README.md", language)
    ten, *_ = programs(ROOT / "packages" / language / "README.md", language)
    lines = [line.strip() for line in ten.splitlines()]
    position = 0
    for line in filter(None, map(str.strip, shown.splitlines())):
        assert line in lines[position:], line
        position = lines.index(line, position) + 1


def test_the_committed_code_is_fresh() -> None:
    """`make fresh` would change nothing; what has no generator installed is not compared."""
    done = subprocess.run(
        [sys.executable, "packages/generate.py", "--check"],
        cwd=ROOT, capture_output=True, encoding="utf-8", check=False, timeout=BUILD_SECONDS,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
