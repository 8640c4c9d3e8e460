"""The manifests for Kubernetes: whole, and with the rights that the handler uses.

That the rights are the least is found out by doing: the handlers of the shipped
agent.toml do all that they can at the fake of an API server, which notes each right
and refuses what the roles do not give.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.handlers.port import Ground
from forewarn.agent.handlers.records import RunRecords
from forewarn.agent.handlers.run_context import HandlerError
from forewarn.agent.integrations.kubernetes import KIND
from forewarn.agent.settings import load_settings
from forewarn.agent.settings_model import HandlerSettings
from forewarn.clock import VirtualClock
from forewarn.instants import SECOND
from tests.support import plain_yaml
from tests.support.agent_journals import START
from tests.support.fake_kubernetes import REVIEW, Budget, Right, serving
from tests.support.kubernetes_workers import Cluster, kubeconfig, notice

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "deploy" / "kubernetes"
PAGE = ROOT / "docs" / "how-to" / "agent" / "integrations" / "kubernetes.md"
SETTINGS = DIRECTORY / "agent.toml"


def manifest(name: str) -> Any:
    return plain_yaml.read((DIRECTORY / name).read_text(encoding="utf-8"))


def rights(rules: list[Any]) -> set[Right]:
    return {
        Right(verb, group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def granted() -> set[Right]:
    """Return what the account may do, in all its roles."""
    return {
        right
        for name in ("clusterrole.yaml", "role.yaml")
        for right in rights(manifest(name)["rules"])
    }


def force_rule() -> set[Right]:
    """Return the rule that the page adds for `force`."""
    [block] = re.findall(
        r"^```yaml\n(- .*?)^```",
        PAGE.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    return rights(plain_yaml.read(block))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    clock = VirtualClock(START)
    with serving(clock) as fake:
        fake.add_node("web-0")
        yield Cluster(fake, clock, tmp_path)


def live(cluster: Cluster, *, force: bool) -> None:
    """Have every handler of agent.toml check, prepare and recover."""
    fake, directory = cluster.fake, cluster.directory
    (directory / "kubeconfig").write_text(kubeconfig(fake.url), encoding="utf-8")
    (directory / "kubeconfig").chmod(0o600)
    settings = load_settings(file=str(SETTINGS), environ={}, flags={})
    environment = {"NODE_NAME": "web-0"}
    for declared in settings.handlers:
        more = {**declared.more, "kubeconfig": str(directory / "kubeconfig")}
        if force and more.get("drain", True):
            more |= {"force": True, "force_lead": 10 * SECOND}
        handler = HandlerSettings(name=declared.name, kind=declared.kind, more=more)
        worker = KIND.make(
            handler,
            Ground(
                records=RunRecords(directory),
                environment=environment,
                clock=cluster.clock,
            ),
        )
        assert worker.check() == []
        label = {"app": "web"}
        fake.budgets = [Budget("web", "shop", label, 1)] if force else []
        fake.add_pod("web-1", labels=label)
        fake.add_pod("proxy", owner="DaemonSet")
        cluster.prepare(worker, notice(), name=declared.name, seconds=60)
        cluster.recover(worker, notice(), name=declared.name)
    assert fake.names() == ["proxy"]
    assert fake.node()["spec"] == {}


def test_roles_grant_exactly_the_used_permissions(cluster: Cluster) -> None:
    cluster.fake.allowed = granted()
    live(cluster, force=False)
    assert cluster.fake.used - {REVIEW} == granted()
    assert REVIEW in cluster.fake.used


def test_force_needs_one_additional_rule(cluster: Cluster) -> None:
    cluster.fake.allowed = granted()
    with pytest.raises((AssertionError, HandlerError)):
        live(cluster, force=True)
    cluster.fake.allowed = granted() | force_rule()
    live(cluster, force=True)
    assert cluster.fake.used - {REVIEW} == granted() | force_rule()


def test_the_kustomization_has_each_file() -> None:
    whole = manifest("kustomization.yaml")
    files = {path.name for path in DIRECTORY.iterdir()}
    [settings] = whole["configMapGenerator"]
    assert files == {"kustomization.yaml", *whole["resources"], *settings["files"]}
    daemon = manifest("daemonset.yaml")["spec"]["template"]["spec"]
    [container] = daemon["containers"]
    assert [image["name"] for image in whole["images"]] == [container["image"]]
    [volume] = [volume for volume in daemon["volumes"] if volume["name"] == "settings"]
    assert volume["configMap"]["name"] == settings["name"]


def test_manifest_names_are_consistent() -> None:
    account = manifest("serviceaccount.yaml")["metadata"]
    namespace = manifest("namespace.yaml")["metadata"]
    assert account["namespace"] == namespace["name"]
    assert (
        manifest("kustomization.yaml")["configMapGenerator"][0]["namespace"]
        == (namespace["name"])
    )
    for binding, role in (
        ("clusterrolebinding.yaml", "clusterrole.yaml"),
        ("rolebinding.yaml", "role.yaml"),
    ):
        bound, role_document = manifest(binding), manifest(role)
        assert bound["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": role_document["kind"],
            "name": role_document["metadata"]["name"],
        }
        assert bound["subjects"] == [{"kind": "ServiceAccount", **account}]
        assert bound["metadata"].get("namespace") == role_document["metadata"].get(
            "namespace"
        )
    # Events about what is in no namespace stand in this one.
    assert manifest("role.yaml")["metadata"]["namespace"] == "default"
    # The usual standard for pods forbids the node's network.
    assert namespace["labels"] == {"pod-security.kubernetes.io/enforce": "privileged"}


def test_daemon_set_has_its_account_and_runs_on_each_node() -> None:
    daemon = manifest("daemonset.yaml")
    template = daemon["spec"]["template"]
    pod = template["spec"]
    labels = template["metadata"]["labels"].items()
    assert daemon["spec"]["selector"]["matchLabels"].items() <= labels
    account = manifest("serviceaccount.yaml")["metadata"]
    assert pod["serviceAccountName"] == account["name"]
    assert daemon["metadata"]["namespace"] == account["namespace"]
    assert pod["hostNetwork"] is True
    assert pod["tolerations"] == [{"operator": "Exists"}]
    [container] = pod["containers"]
    assert container["env"] == [
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    ]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_container_uses_the_mounted_settings() -> None:
    watch = load_settings(file=str(SETTINGS), environ={}, flags={}).watch
    [container] = manifest("daemonset.yaml")["spec"]["template"]["spec"]["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert container["command"] == [
        *("forewarn-agent", "--config"),
        f"{mounts['settings']}/{SETTINGS.name}",
    ]
    assert watch.state.startswith(f"{mounts['journal']}/")
    probe = container["livenessProbe"]["httpGet"]
    assert watch.listen == f"{probe['host']}:{probe['port']}"
    volumes = manifest("daemonset.yaml")["spec"]["template"]["spec"]["volumes"]
    [journal] = [volume for volume in volumes if volume["name"] == "journal"]
    assert journal["hostPath"]["path"] == mounts["journal"]
