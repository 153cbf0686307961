"""Compile the .proto files for the clients: `python packages/generate.py`, or with `--check` compare only.

The code of `packages/typescript/src/gen` and `packages/go/memsvc/v1` is committed, so that users need no generator. The
generators are pinned by `packages/typescript/package-lock.json` and `packages/go/tools.mod`; a language whose tools are
not installed is skipped. Maven generates the code of `packages/java` at each build.
"""

# ruff: noqa: INP001 (a script next to the packages, no package)

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import google.rpc.error_details_pb2 as details
import grpc_tools  # type: ignore[import-untyped]  # ships no types
from grpc_tools import protoc

PACKAGES = Path(__file__).resolve().parent
ROOT = PACKAGES.parent
PROTO = ROOT / "proto"
GOOGLE = Path(details.__file__).parents[2]
"""The folder that holds google/rpc/error_details.proto."""
OURS = sorted(path.relative_to(PROTO).as_posix() for path in (PROTO / "memsvc" / "v1").glob("*.proto"))
TOOLS = ROOT / "build" / "packages" / "generators"


def main() -> None:
    """Write the generated code, or with `--check` exit with 1 and a list if the committed code is stale."""
    parser = argparse.ArgumentParser(description="Compile proto/ into the packages.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the committed code is stale")
    check = parser.parse_args().check
    stale: list[str] = []
    for language, (tool, target, generate) in LANGUAGES.items():
        if shutil.which(tool) is None:
            print(f"packages/{language}: not compared, because {tool} is not on the PATH")  # noqa: T201
            continue
        with tempfile.TemporaryDirectory() as folder:
            generate(Path(folder))
            fresh = read_folder(Path(folder))
        if check:
            stale += differences(target, fresh)
        else:
            write_folder(target, fresh)
    if stale:
        sys.exit("\n".join(["The code of the packages is stale; run: make fresh", *sorted(stale)]))


def generate_typescript(target: Path) -> None:
    """Write the messages and service descriptors of Protobuf-ES, those of Google's that they need included."""
    plugin = typescript_tools() / "node_modules" / ".bin" / "protoc-gen-es"
    sources = [*OURS, "google/api/field_behavior.proto", "google/rpc/error_details.proto"]
    compile_protos(plugin, ["--es_opt=target=ts,import_extension=js", f"--es_out={target}"], sources)


def typescript_tools() -> Path:
    """Return a folder with the dependencies of the TypeScript package, which are installed once for each lock file."""
    package = PACKAGES / "typescript"
    files = [package / name for name in ("package.json", "package-lock.json", ".npmrc")]
    folder = TOOLS / f"typescript-{digest(files)}"
    if not folder.exists():
        with made_at_once(folder) as partial:
            for file in files:
                shutil.copy(file, partial)
            run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], partial)
    return folder


def generate_go(target: Path) -> None:
    """Write the messages and the gRPC stubs of Go."""
    package = PACKAGES / "go"
    folder = TOOLS / f"go-{digest([package / 'tools.mod', package / 'tools.sum'])}"
    if not folder.exists():
        with made_at_once(folder) as partial:
            run(["go", "build", "-modfile=tools.mod", "-o", f"{partial}/", "tool"], package)
    module = "github.com/memsvc/memsvc/packages/go"
    with tempfile.TemporaryDirectory() as output:
        for name in ("go", "go-grpc"):
            options = [f"--{name}_opt=module={module}", f"--{name}_out={output}"]
            sources = OURS if name == "go" else [source for source in OURS if source.endswith("_service.proto")]
            compile_protos(folder / f"protoc-gen-{name}", options, sources)
        shutil.copytree(Path(output) / "memsvc" / "v1", target, dirs_exist_ok=True)


LANGUAGES: dict[str, tuple[str, Path, Callable[[Path], None]]] = {
    "typescript": ("npm", PACKAGES / "typescript" / "src" / "gen", generate_typescript),
    "go": ("go", PACKAGES / "go" / "memsvc" / "v1", generate_go),
}
"""The tool that has to be installed, the folder of the generated code, and its generator."""


def compile_protos(plugin: Path, options: list[str], sources: list[str]) -> None:
    """Run protoc with a plugin; exit with 1 if it fails, its messages on stderr."""
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    paths = [f"-I{folder}" for folder in (PROTO, GOOGLE, well_known)]
    if protoc.main(["protoc", *paths, f"--plugin={plugin}", *options, *sources]) != 0:
        sys.exit(f"protoc with {plugin.name} failed; nothing was written.")


class made_at_once:  # noqa: N801 - reads like the context managers of the standard library
    """A folder that exists only when it is complete."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))

    def __enter__(self) -> Path:
        """Return the folder to fill."""
        return self._partial

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Move it into place, unless filling it failed or another process was faster."""
        if kind is None and not self._folder.exists():
            self._partial.rename(self._folder)
        else:
            shutil.rmtree(self._partial)


def run(command: list[str], folder: Path) -> None:
    """Run a tool; exit with 1 and its output if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def digest(files: list[Path]) -> str:
    """Return a digest of the contents of files."""
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files of a folder, by their paths in it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def differences(target: Path, fresh: dict[str, bytes]) -> Iterator[str]:
    """Yield one line for each file of *target* that is missing, out of date or left over."""
    committed = read_folder(target)
    for name in committed.keys() | fresh.keys():
        if committed.get(name) != fresh.get(name):
            state = "missing" if name not in committed else "left over" if name not in fresh else "out of date"
            yield f"  {state}: {(target / name).relative_to(ROOT)}"


def write_folder(target: Path, fresh: dict[str, bytes]) -> None:
    """Make *target* equal *fresh*, removing files that are no longer generated."""
    for name in read_folder(target).keys() - fresh.keys():
        (target / name).unlink()
    for name, content in fresh.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)


if __name__ == "__main__":
    main()
