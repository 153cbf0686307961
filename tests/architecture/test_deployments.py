"""docker/ is what it says: linted by the tools themselves, hardened, and full of settings that there are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from memsvc.settings import Settings, load_settings
from tests.architecture.deployments import (
    COMPOSE,
    DOCKER,
    KUBERNETES,
    KUSTOMIZATIONS,
    MANIFESTS,
    ROOT,
    containers,
    documents,
    hardening,
    named_settings,
    pods,
    settings_files,
    validate_options,
)

BIN = Path(sys.executable).parent
KUBERNETES_VERSIONS = ("1.29", "1.33", "1.37")
"""The first with sidecars that are on by default, one between, the newest that the validator knows."""
YAML_RULES = (
    "{extends: default, rules: {line-length: {max: 130}, document-start: disable,"
    " comments: {min-spaces-from-content: 1}, braces: {max-spaces-inside: 0}},"
    # Templates are no YAML before they are rendered: tests/architecture/test_chart.py.
    " ignore: docker/helm/memsvc/templates/}"
)
CLOSING_SECONDS = 15
"""What closing the stores may take after the grace."""


def relative(path: Path) -> str:
    """Return how a file is called in the project."""
    return str(path.relative_to(ROOT))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of the environment in the project's folder."""
    return subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "command",
    [
        ("hadolint", "docker/Dockerfile"),
        ("yamllint", "--strict", "-d", YAML_RULES, "docker"),
        *(("docker-compose", "--file", relative(path), "config", "--quiet") for path in COMPOSE),
    ],
    ids=["hadolint", "yamllint", *(path.stem for path in COMPOSE)],
)
def test_the_tools_have_nothing_to_say(command: tuple[str, ...]) -> None:
    """Each is the tool itself; none needs an engine, a cluster or a network."""
    done = run(*command)

    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stdout.strip() + done.stderr.strip()


@pytest.mark.parametrize("path", MANIFESTS, ids=relative)
def test_manifests_are_valid_for_old_and_new_clusters(path: Path) -> None:
    """Strictly: a field that there is not is an error."""
    import kubernetes_validate  # noqa: PLC0415 - it takes seconds, which no other test should wait for

    for document in documents(path):
        for version in KUBERNETES_VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=relative)
def test_kustomizations_name_what_is_there(path: Path) -> None:
    """Resources and generated files exist; so does every image that is given a tag."""
    (document,) = documents(path)
    optional = set(re.findall(r"# - (\S+\.yaml)", path.read_text(encoding="utf-8")))
    files = [file for one in document.get("configMapGenerator", ()) for file in one["files"]]
    images = {container["image"] for _, pod in pods() for container in containers(pod)}

    assert [name for name in {*document["resources"], *files, *optional} if not (path.parent / name).exists()] == []
    assert {image["name"] for image in document.get("images", ())} <= images
    listed = {*document["resources"], *optional, "kustomization.yaml"}
    assert {one.name for one in path.parent.glob("*.yaml")} <= listed


def test_no_container_may_more_than_it_needs() -> None:
    """Not root, nothing but volumes is written to, no capability, no key to the cluster, and bounds."""
    for path, pod in pods():
        context = pod["securityContext"]
        assert context["runAsNonRoot"] and context["runAsUser"] > 0, path
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}, path
        assert pod["automountServiceAccountToken"] is False, path
        for container in containers(pod):
            assert hardening(container["securityContext"]) == (True, False, ["ALL"]), path
            assert container["resources"]["requests"] and container["resources"]["limits"]["memory"], path
    for path in COMPOSE:
        (document,) = documents(path)
        for name, service in document["services"].items():
            assert service["read_only"] and service["cap_drop"] == ["ALL"], (path, name)
            assert service["security_opt"] == ["no-new-privileges:true"], (path, name)
            assert service.get("user", "10001:10001") != "0:0", (path, name)


def seconds(text: str) -> int:
    """Return a duration of Compose, such as 45s."""
    return int(text.removesuffix("s"))


def test_there_is_time_to_stop_in_good_order() -> None:
    """Whoever stops memsvc waits until it has left the endpoints, calls have ended and the stores are closed."""
    grace = Settings.model_fields["server"].default.grace_seconds
    stops = {}
    for path, pod in pods():
        for container in containers(pod):
            if container["image"] == "memsvc":
                before = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
                stops[relative(path)] = pod["terminationGracePeriodSeconds"] - before
    for path in COMPOSE:
        stops[relative(path)] = seconds(documents(path)[0]["services"]["memsvc"]["stop_grace_period"])

    assert len(stops) == 4
    assert {place: left for place, left in stops.items() if left < grace + CLOSING_SECONDS} == {}
    assert all(toml.get("server", {}).get("grace_seconds", grace) == grace for toml in settings_files().values())


def test_the_volume_of_a_replica_holds_all_uploads_at_a_time() -> None:
    """A pod whose disposable volume is beyond its limit is evicted."""
    toml = tomllib.loads((DOCKER / "kubernetes" / "cluster" / "memsvc.toml").read_text(encoding="utf-8"))
    [pod] = [pod for path, pod in pods() if path.parent.name == "cluster"]
    [limit] = [one["emptyDir"]["sizeLimit"] for one in pod["volumes"] if one["name"] == "data"]

    assert int(limit.removesuffix("Gi")) << 30 > toml["files"]["max_bytes"] * toml["files"]["max_streams"]


def test_probes_ask_the_port_that_is_listened_at() -> None:
    """For names that the service knows."""
    toml = {path.parent.name: content["server"] for path, content in settings_files().items()}
    asked = 0
    for path, pod in pods():
        for container in containers(pod):
            if container["image"] != "memsvc":
                continue
            given = {one["name"]: one["value"] for one in container["env"]}
            address = given.get("MEMSVC_SERVER__HEALTH_ADDRESS") or toml[path.parent.name]["health_address"]
            for kind, service in (("startup", "readiness"), ("readiness", "readiness"), ("liveness", "liveness")):
                probe = container[f"{kind}Probe"]["grpc"]
                assert (probe["port"], probe["service"]) == (int(address.rpartition(":")[2]), service), path
                asked += 1

    assert asked == 6


@pytest.mark.parametrize("path", named_settings(), ids=relative)
def test_variables_and_secrets_are_settings(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong name or value would stop the service; so it stops this test, options of backends included.

    Of a kustomization the settings' file is read too: its secrets complete what is there.
    """
    for name, value in named_settings()[path].items():
        monkeypatch.setenv(name, value)
    beside = path.parent / "memsvc.toml"

    validate_options(load_settings(beside if beside.exists() else None))


@pytest.mark.parametrize("path", settings_files(), ids=relative)
def test_settings_files_are_valid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the secret that every one of them needs."""
    monkeypatch.setenv("MEMSVC_METADATA__OPTIONS__URL", "postgresql://memsvc:secret@host/memsvc")

    validate_options(load_settings(path))


def test_groups_of_variables_and_secrets_are_there() -> None:
    """Each begins with the name of a setting or of a group of them."""
    known = {*Settings.model_fields, "profile"}
    groups = {
        name.removeprefix("MEMSVC_").partition("__")[0].lower() for given in named_settings().values() for name in given
    }

    assert groups - known == set()
    assert {group for toml in settings_files().values() for group in toml} - known == set()
    assert len(groups) > 4


def test_no_certificate_is_mounted_where_it_would_never_change() -> None:
    """A file that is mounted by subPath stays what it was when the pod started."""
    mounts = [mount for _, pod in pods() for each in containers(pod) for mount in each.get("volumeMounts", ())]

    assert [mount for mount in mounts if "subPath" in mount] == []
    assert len(KUBERNETES) > 8


def test_the_image_is_locked_with_all_extras() -> None:
    """What an extra asks for is in the lock that the image is made of, in the version that was tested."""
    image, tested = (pins(ROOT / name) for name in ("docker/requirements.lock", "requirements-dev.lock"))
    script = ROOT / "pyproject.toml"
    extras = script.read_text(encoding="utf-8").partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    asked = {re.sub(r"[-_.]+", "-", name).lower() for name in re.findall(r'"([A-Za-z0-9_.-]+)[\[>=]', extras)}

    assert len(asked) > 4
    assert asked - {"memsvc"} - set(image) == set()
    assert {name: pin for name, pin in image.items() if tested.get(name, pin) != pin} == {}


@pytest.mark.parametrize("name", ["requirements.lock", "docker/requirements.lock"])
def test_the_service_has_all_time_zones_on_every_system(name: str) -> None:
    """Debian 13 and Ubuntu 24.04 have US/Pacific in a package of its own, which images do not have."""
    assert re.search(r"^tzdata==\S+ \\$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)


def pins(path: Path) -> dict[str, str]:
    """Return the versions that a lock names."""
    return dict(re.findall(r"^([a-z0-9-]+)(?:\[[^]]*\])?==(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_the_bill_of_materials_names_what_is_locked(tmp_path: Path) -> None:
    """`make sbom` writes every package of the image's lock with its version and hashes, without asking anybody."""
    done = run("python", "packages/release.py", "--snapshot", "--only", "sbom", "--into", str(tmp_path))

    assert done.returncode == 0, done.stderr
    bill = json.loads((tmp_path / "memsvc.cdx.json").read_text(encoding="utf-8"))
    assert {one["name"]: one["version"] for one in bill["components"]} == pins(DOCKER / "requirements.lock")
    assert all(one["externalReferences"][0]["hashes"] for one in bill["components"])
    assert bill["metadata"]["component"]["name"] == "memsvc"
