"""The chart of docker/helm, linted and rendered by Helm's own library; its manifests, checked like docker/kubernetes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from memsvc.settings import load_settings
from tests.architecture.deployments import DOCKER, ROOT, containers, hardening, validate_options

pytestmark = pytest.mark.xdist_group("chart")
"""One process reads the schemas of Kubernetes once."""
CHART = DOCKER / "helm" / "memsvc"
KUBERNETES_VERSIONS = ("1.30", "1.37")
"""The first that Chart.yaml allows, and the newest that the validator knows."""
URL = "postgresql://memsvc:secret@host/memsvc"
CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "embedded": {
        "firstKey": False,
        "persistence": {"enabled": False},
        "settings": {"files": {"max_bytes": 2_000_000_000}, "ranking": {"tier": "E"}},
        "tls": {"secretName": "certificate"},
        "networkPolicy": {"enabled": False},
        "secrets": {"existingSecret": "mine"},
        "image": {"digest": "sha256:" + "0" * 64, "pullSecrets": [{"name": "registry"}]},
    },
    "claim": {
        "persistence": {"existingClaim": "mine", "storageClass": "fast", "accessMode": "ReadWriteOnce"},
        "tls": {"secretName": "certificate", "clientCertificates": True},
        "metrics": {"enabled": True},
        "settings": {"access": {"keys": "off"}},
        "replicas": 0,
    },
    "postgres": {
        "profile": "postgres",
        "secrets": {"values": {"memsvc_metadata__options__url": URL}},
        "env": [{"name": "AWS_REGION", "value": "eu"}],
        "envFrom": [{"secretRef": {"name": "s3"}}],
        "settings": {"blobs": {"options": {"url": "s3://files"}}},
        "networkPolicy": {"egressPorts": [5433], "clients": [{"namespaceSelector": {}}]},
        "replicas": 3,
    },
    "cluster": {
        "profile": "cluster",
        "secrets": {"existingSecret": "mine"},
        "qdrant": {"url": "http://qdrant:6334"},
        "tls": {"secretName": "certificate"},
        "metrics": {"enabled": True, "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
        "autoscaling": {"enabled": True},
        "service": {"type": "LoadBalancer", "annotations": {"example/internal": "true"}},
        "serviceAccountName": "memory",
        "priorityClassName": "high",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "memory", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "podAnnotations": {"example/team": "agents"},
        "podLabels": {"team": "agents"},
        "fullnameOverride": "agents",
    },
}
REFUSED: dict[str, dict[str, Any]] = {
    "set secrets.existingSecret": {"profile": "postgres"},
    "set qdrant.url": {"profile": "cluster", "secrets": {"existingSecret": "mine"}},
    "without a key": {"metrics": {"enabled": True}, "settings": {"access": {"keys": "off"}}},
    "at '/replicas'": {"replicas": 2},
    "at '/autoscaling/enabled'": {"autoscaling": {"enabled": True}},
    "at '/tls/secretName'": {"tls": {"clientCertificates": True}},
    "at '/profile'": {"profile": "sidecar"},
    "additional properties 'replica'": {"replica": 1},
    "at '/strategy'": {"strategy": "OnDelete"},
}
"""A part of each message, and the values that it refuses."""


def render(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the manifests that Helm makes of values."""
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        rendered = chart.render(values, name="release-name", namespace="agents")
    texts = [text for name, text in sorted(rendered.items()) if name.endswith(".yaml")]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def one(manifests: list[dict[str, Any]], *kinds: str) -> dict[str, Any]:
    """Return the only manifest of some kinds."""
    [found] = [manifest for manifest in manifests if manifest["kind"] in kinds]
    return found


@pytest.fixture(scope="module", params=CASES)
def manifests(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The manifests of a case."""
    return render(CASES[request.param])


@pytest.mark.parametrize("case", CASES)
def test_lint_finds_nothing(case: str) -> None:
    """Warnings included; an icon is not needed."""
    report = helm_python.lint(CHART, CASES[case], strict=True, kube_version=f"v{KUBERNETES_VERSIONS[0]}.0")

    assert report["errors"] == []
    assert [each["error"] for each in report["messages"]] == ["icon is recommended"]


def test_manifests_are_valid_for_old_and_new_clusters(manifests: list[dict[str, Any]]) -> None:
    """Strictly: an unknown field is an error. A ServiceMonitor has no schema in Kubernetes."""
    import kubernetes_validate  # noqa: PLC0415 - it takes seconds, which no other test should wait for

    for manifest in manifests:
        for version in KUBERNETES_VERSIONS:
            if manifest["kind"] != "ServiceMonitor":
                kubernetes_validate.validate(manifest, version, strict=True)


def test_replicas_are_replaced_one_by_one_unless_all_have_to_stop_first() -> None:
    """An upgrade with a migration must not run both versions."""
    rolling = one(render(CASES["postgres"]), "Deployment")["spec"]["strategy"]
    stopping = one(render(CASES["postgres"] | {"strategy": "Recreate"}), "Deployment")["spec"]["strategy"]

    assert rolling == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert stopping == {"type": "Recreate"}


def test_pods_are_hardened_and_have_time_to_stop(manifests: list[dict[str, Any]]) -> None:
    """As those of docker/kubernetes: not root, a read-only root, no capability, no token, bounds."""
    pod = one(manifests, "StatefulSet", "Deployment")["spec"]["template"]["spec"]

    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["terminationGracePeriodSeconds"] == 45
    for container in containers(pod):
        assert hardening(container["securityContext"]) == (True, False, ["ALL"])
        assert container["resources"]["requests"] and container["resources"]["limits"]["memory"]
        assert not [mount for mount in container["volumeMounts"] if "subPath" in mount]


def test_names_and_ports_fit_together(manifests: list[dict[str, Any]]) -> None:
    """Selectors match the pods, mounts have volumes, Services and probes have ports."""
    workload = one(manifests, "StatefulSet", "Deployment")
    template = workload["spec"]["template"]
    labels, pod = template["metadata"]["labels"], template["spec"]
    claims = {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", ())}
    volumes = {volume["name"] for volume in pod["volumes"]} | claims
    ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
    services = {
        manifest["metadata"]["name"]: manifest["spec"] for manifest in manifests if manifest["kind"] == "Service"
    }
    config = one(manifests, "ConfigMap")

    assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert all(service["selector"].items() <= labels.items() for service in services.values())
    assert {port["targetPort"] for service in services.values() for port in service["ports"]} <= set(ports)
    assert workload["spec"].get("serviceName", next(iter(services))) in services
    for container in containers(pod):
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    for kind in ("startup", "readiness", "liveness"):
        assert pod["containers"][0][f"{kind}Probe"]["grpc"]["port"] == ports["health"]
    assert {"name": "config", "configMap": {"name": config["metadata"]["name"]}} in pod["volumes"]
    for manifest in manifests:
        if manifest["kind"] == "PodDisruptionBudget":
            assert manifest["spec"]["selector"]["matchLabels"].items() <= labels.items()
        if manifest["kind"] == "NetworkPolicy":
            assert manifest["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        if manifest["kind"] == "ServiceMonitor":
            [service] = [each for each in manifests if each["metadata"]["name"].endswith("-metrics")]
            assert manifest["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


def test_settings_are_read_without_complaint(
    manifests: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of settings is one that the service takes, options of backends included, and listens where probes ask."""
    path = tmp_path / "memsvc.toml"
    path.write_text(one(manifests, "ConfigMap")["data"]["memsvc.toml"], encoding="utf-8")
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    if content["profile"] != "embedded":
        monkeypatch.setenv("MEMSVC_METADATA__OPTIONS__URL", URL)

    settings = load_settings(path)

    validate_options(settings)
    assert settings.server.health_address == "0.0.0.0:50052"
    assert settings.access.keys == "required" or settings.server.tls.client_ca
    assert bool(settings.metrics.address) == settings.server.insecure


def test_profiles_are_what_they_say() -> None:
    """One server with a volume, or replicas with images that have the clients of the stores."""
    kinds = {name: {manifest["kind"] for manifest in render(values)} for name, values in CASES.items()}
    embedded, cluster = (one(render(CASES[name]), "StatefulSet", "Deployment") for name in ("defaults", "cluster"))
    postgres = one(render(CASES["postgres"]), "Deployment")
    opened = {
        name: {port["port"] for port in one(render(CASES[name]), "NetworkPolicy")["spec"]["egress"][0]["ports"]}
        for name in ("defaults", "postgres", "cluster")
    }

    assert embedded["spec"]["replicas"] == 1
    assert embedded["spec"]["template"]["spec"]["containers"][0]["image"].endswith(f"memsvc:{version()}")
    [claim] = embedded["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert "replicas" not in cluster["spec"]
    assert postgres["spec"]["replicas"] == 3
    assert cluster["spec"]["template"]["spec"]["containers"][0]["image"].endswith(f"memsvc:{version()}-postgres-s3")
    assert opened == {"defaults": {53, 443}, "postgres": {53, 5433}, "cluster": {53, 443, 5432, 6334}}
    assert kinds["defaults"] == {"StatefulSet", "Service", "ConfigMap", "NetworkPolicy"}
    assert kinds["postgres"] == {
        "Deployment", "Service", "ConfigMap", "Secret", "NetworkPolicy", "PodDisruptionBudget",
    }  # fmt: skip
    assert {"HorizontalPodAutoscaler", "ServiceMonitor"} <= kinds["cluster"]


@pytest.mark.parametrize(
    ("files", "limit"), [({}, "5120Mi"), ({"max_bytes": 1 << 30}, "17408Mi"), ({"max_streams": 8}, "3072Mi")]
)
def test_the_volume_of_a_replica_holds_all_uploads_at_a_time(files: dict[str, int], limit: str) -> None:
    """Whatever the settings allow; a pod whose disposable volume is beyond its limit is evicted."""
    manifests = render(CASES["cluster"] | {"settings": {"files": files}})
    volumes = one(manifests, "Deployment")["spec"]["template"]["spec"]["volumes"]
    settings = tomllib.loads(one(manifests, "ConfigMap")["data"]["memsvc.toml"])

    assert [volume["emptyDir"]["sizeLimit"] for volume in volumes if volume["name"] == "data"] == [limit]
    assert settings["files"] == {"max_bytes": 1 << 28, "max_streams": 16} | files


def version() -> str:
    """Return the version of the service."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


@pytest.mark.parametrize("message", REFUSED)
def test_values_that_cannot_work_are_refused(message: str) -> None:
    """Before anything is installed, with the value to set."""
    with pytest.raises(helm_python.HelmError, match=message):
        render(REFUSED[message])


def test_values_are_documented_and_checked() -> None:
    """The schema knows each value, and no other, at every level that it closes."""

    def differences(values: dict[str, Any], schema: dict[str, Any], path: str = "") -> list[str]:
        if schema.get("additionalProperties") is not False:
            return []
        known = set(schema["properties"]) - {"global"}
        inner = [
            difference
            for name in known & set(values)
            if isinstance(values[name], dict)
            for difference in differences(values[name], schema["properties"][name], f"{path}{name}.")
        ]
        return [*inner, *(path + name for name in known ^ set(values))]

    with helm_python.Chart.load(CHART) as chart:
        assert (
            differences(chart.values, yaml.safe_load((CHART / "values.schema.json").read_text(encoding="utf-8"))) == []
        )
