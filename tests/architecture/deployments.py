"""What lies in docker/, read: every document of Kubernetes and Compose, and every setting that they name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from memsvc.bootstrap.backends import NO_BACKEND, options_of
from memsvc.bootstrap.plugins import GROUPS, load_backend
from memsvc.settings import BackendChoice, Settings

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
COMPOSE = tuple(sorted(DOCKER.glob("compose*.yaml")))
KUBERNETES = tuple(sorted((DOCKER / "kubernetes").rglob("*.yaml")))
KUSTOMIZATIONS = tuple(path for path in KUBERNETES if path.name == "kustomization.yaml")
MANIFESTS = tuple(path for path in KUBERNETES if path.name != "kustomization.yaml")
OF_COMMANDS = frozenset({"MEMSVC_ADDRESS", "MEMSVC_USER", "MEMSVC_CONFIG", "MEMSVC_SECRETS_DIR"})
"""Variables that are no settings: those of commands, and those that say where settings are."""


def documents(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a file."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def pods() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the specification of every pod."""
    for path in MANIFESTS:
        for document in documents(path):
            if "template" in document["spec"]:
                yield path, document["spec"]["template"]["spec"]


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the containers of a pod, sidecars included."""
    return [*pod.get("initContainers", ()), *pod["containers"]]


def hardening(context: dict[str, Any]) -> tuple[Any, ...]:
    """Return what must be true of a container's rights."""
    return (
        context.get("readOnlyRootFilesystem"),
        context.get("allowPrivilegeEscalation"),
        context.get("capabilities", {}).get("drop"),
    )


def validate_options(settings: Settings) -> None:
    """Validate the options of every backend that is chosen."""
    for port in GROUPS:
        choice: BackendChoice = getattr(settings, port)
        if choice.backend != NO_BACKEND:
            options_of(port, choice, load_backend(port, choice.backend).settings, settings.metadata.options)


def named_settings() -> dict[Path, dict[str, str]]:
    """Return every setting given as a variable or as a file of a secret, by its variable's name."""
    found: dict[Path, dict[str, str]] = {}
    for path in COMPOSE:
        (document,) = documents(path)
        for service in document["services"].values():
            given = found.setdefault(path, {})
            given |= {name: str(value) for name, value in service.get("environment", {}).items()}
            secrets = [one for one in service.get("secrets", ()) if isinstance(one, dict)]
            given |= {one["target"].upper(): _example(one["target"]) for one in secrets}
    for path, pod in pods():
        for container in containers(pod):
            given = found.setdefault(path, {})
            given |= {one["name"]: str(one.get("value", "")) for one in container.get("env", ())}
    for path in KUSTOMIZATIONS:
        names = re.findall(r"\b(memsvc_[a-z_]+__[a-z_]+)=", path.read_text(encoding="utf-8"))
        found[path] = {name.upper(): _example(name) for name in names}
    ours = {path: {name: text for name, text in given.items() if _is_setting(name)} for path, given in found.items()}
    return {path: given for path, given in ours.items() if given}


def settings_files() -> dict[Path, dict[str, Any]]:
    """Return what every memsvc.toml says."""
    return {path: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(DOCKER.rglob("*.toml"))}


def _is_setting(name: str) -> bool:
    return name.startswith("MEMSVC_") and name not in OF_COMMANDS


def _example(name: str) -> str:
    return "postgresql://memsvc:secret@host/memsvc" if name.endswith("url") else "secret"
