"""kubectl beside us: its files are read, its manifests are whole, its drain is ours.

There is no API server to be had here, so both are let at the same fake of one: what
kubectl does at it and what the handler does must come to the same.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.integrations.kubernetes import access
from forewarn.clock import SystemClock, VirtualClock
from tests.support.agent_journals import START
from tests.support.certificates import certificate_in, needs_openssl
from tests.support.fake_kubernetes import TOKEN, FakeKubernetes, serving
from tests.support.kubernetes_workers import Cluster
from tests.support.unpacked import find

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "deploy" / "kubernetes"
LOCAL: list[Any] = [{"name": "scratch", "emptyDir": {}}]
SECONDS = 15
KUBECTL = find("kubectl")
LEAST = 22
"""Minimum minor version: the first that asks for evictions by policy/v1. The one of
Debian 12 is older, and breaks off when it writes a file."""


def minor_version() -> int:
    """Return which version is here; 0: none."""
    if not KUBECTL:
        return 0
    done = subprocess.run(
        [KUBECTL, "version", "--client", "-o", "json"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    version = json.loads(done.stdout or "{}").get("clientVersion", {})
    return int(re.sub(r"\D", "", version.get("minor", "")) or 0)


pytestmark = [pytest.mark.real, pytest.mark.system, pytest.mark.slow]


class Kubectl:
    """kubectl with a home and a kubeconfig of its own."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "config"
        self._environment = {
            "HOME": str(directory),
            "KUBECONFIG": str(self.file),
        }

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            [KUBECTL, *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def go_to(self, server: str, certificate: Path) -> None:
        """Write a kubeconfig for a server, as the page does it."""
        self(
            *("config", "set-cluster", "here", "--server", server, "--embed-certs"),
            f"--certificate-authority={certificate}",
        )
        self("config", "set-credentials", "agent", "--token", TOKEN)
        self("config", "set-context", "here", "--cluster=here", "--user=agent")
        self("config", "set-context", "other", "--cluster=none", "--user=nobody")
        self("config", "use-context", "here")


@pytest.fixture
def kubectl(tmp_path: Path) -> Kubectl:
    if minor_version() < LEAST:
        pytest.skip("needs kubectl 1.22 or newer: make real")
    return Kubectl(tmp_path)


def populate(fake: FakeKubernetes) -> None:
    fake.add_node("web-0")
    fake.add_pod("web-1")
    fake.add_pod("cache", volumes=LOCAL)
    fake.add_pod("lonely", owner="")
    fake.add_pod("proxy", owner="DaemonSet")
    fake.add_pod("static", annotations={"kubernetes.io/config.mirror": "x"})
    fake.add_pod("elsewhere", "web-1")


def test_kubeconfig_written_by_kubectl_is_read(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    certificate = tmp_path / "ca.crt"
    certificate.write_text("-----BEGIN CERTIFICATE-----\nx\n", encoding="ascii")
    kubectl.go_to("https://127.0.0.1:6443", certificate)
    rights = access.find(str(kubectl.file), {})
    assert rights.server == "https://127.0.0.1:6443"
    assert rights.token is not None
    assert rights.token() == TOKEN
    assert rights.ca_text == certificate.read_text()


def test_manifests_build_together(kubectl: Kubectl) -> None:
    output = kubectl("kustomize", str(MANIFESTS))
    kinds = {line[6:] for line in output.splitlines() if line.startswith("kind: ")}
    assert kinds == {
        *("Namespace", "ServiceAccount", "DaemonSet", "ConfigMap"),
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    }
    # The settings are there, under the name that the daemon asks for.
    [name] = {
        line.strip() for line in output.splitlines() if "name: forewarn-agent-" in line
    }
    assert output.count(name) == 2
    assert 'kind = "kubernetes"' in output


def test_manifests_with_monitoring_build_together(kubectl: Kubectl) -> None:
    output = kubectl("kustomize", str(MANIFESTS.with_name("kubernetes-monitoring")))
    kinds = [line[6:] for line in output.splitlines() if line.startswith("kind: ")]
    assert kinds.count("PodMonitor") == kinds.count("DaemonSet") == 1
    assert len(kinds) == 9
    # The overlay adds to what the base has.
    for setting in ("name: NODE_NAME", "name: FOREWARN_AGENT_LISTEN", "name: metrics"):
        assert setting in output, setting


def test_manifests_with_a_lock_build_together(kubectl: Kubectl) -> None:
    output = kubectl("kustomize", str(MANIFESTS.with_name("kubernetes-lock")))
    kinds = [line[6:] for line in output.splitlines() if line.startswith("kind: ")]
    assert kinds.count("Role") == kinds.count("RoleBinding") == 2
    assert len(kinds) == 10
    assert "- leases" in output


def test_components_of_the_manifests_can_be_combined(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    def way(name: str) -> str:
        # kubectl takes no absolute paths.
        return os.path.relpath(MANIFESTS.parent / name, tmp_path)

    parts = [way("kubernetes-parts/lock"), way("kubernetes-parts/monitoring")]
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{way('kubernetes')}]\ncomponents: [{', '.join(parts)}]\n"
    )
    output = kubectl("kustomize", str(tmp_path))
    kinds = [line[6:] for line in output.splitlines() if line.startswith("kind: ")]
    assert len(kinds) == 11
    assert kinds.count("Role") == 2
    assert kinds.count("PodMonitor") == 1
    assert output.count("name: FOREWARN_AGENT_LISTEN") == 1


@needs_openssl
def test_kubectl_and_handler_drain_the_same_pods(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    certificate = certificate_in(tmp_path)
    with serving(SystemClock(), certificate.server()) as fake:
        populate(fake)
        kubectl.go_to(fake.url, certificate.certificate)
        kubectl(
            *("drain", "web-0", "--ignore-daemonsets", "--delete-emptydir-data"),
            *("--force", "--timeout=10s"),
        )
        assert fake.names() == ["proxy", "static"]
        assert fake.node()["spec"]["unschedulable"] is True
        kubectl("uncordon", "web-0")
        assert not fake.node()["spec"].get("unschedulable")

    clock = VirtualClock(START)
    with serving(clock) as other:
        populate(other)
        cluster = Cluster(other, clock, tmp_path)
        cluster.prepare(cluster.worker(empty_dir="evict", bare_pods="evict"))
        assert other.names() == ["proxy", "static"]
        assert other.node()["spec"]["unschedulable"] is True
