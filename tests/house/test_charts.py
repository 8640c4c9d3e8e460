"""The Helm charts: their pages, schemas and templates know the same values.

Where helm is, it draws each template (`tests/real/helm.sh` fetches it), and
`tests/real/test_drawn_charts.py` checks what it has drawn.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy import dashboards
from forewarn.agent.options import environment_name as agent_environment_name
from forewarn.cli import parser
from forewarn.service.option_table import OPTIONS
from forewarn.service.options import environment_name
from forewarn.service.settings import load_settings
from tests.support import plain_yaml
from tests.support.unpacked import find

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = DEPLOY / "kubernetes"
PARTS = DEPLOY / "kubernetes-parts"

SERVICE_DRAWN = {
    "plain": (),
    "tokens": ("--set", "admin.tokens={alice:0123456789abcdef01234567}"),
    "secret": ("--set", "admin.existingSecret=theirs"),
    "everything": (
        *("--set", "fleet=[[host]]", "--set", "hostNetwork=true"),
        *("--set", "metadata.type=LoadBalancer", "--set", "persistence.enabled=false"),
        *("--set", "imagePullSecrets[0].name=pull", "--set", "priorityClassName=high"),
        *("--set", "podLabels.a=b", "--set", "podAnnotations.a=b"),
        *("--set", "serviceAccount.annotations.a=b", "--set", "nodeSelector.a=b"),
        *("--set", "metadata.annotations.a=b", "--set", "metadata.loadBalancerIP=::1"),
        *("--set", "tolerations[0].operator=Exists", "--set", "extraEnv[0].name=A"),
        *("--set", "admin.existingSecret=theirs", "--set", "admin.tlsSecret=tls"),
    ),
    "peers": (
        *("--set", "admin.existingSecret=theirs"),
        *("--set", "networkPolicy.adminFrom[0].ipBlock.cidr=192.0.2.0/24"),
    ),
    "pair": (
        *("--set", "replicas=2", "--set", "postgresql.url=postgresql://u@db/forewarn"),
        *("--set", "postgresql.passwordSecret=db", "--set", "admin.existingSecret=a"),
    ),
    "preferring": (
        *("--set", "replicas=2", "--set", "postgresql.url=postgresql://u@db/forewarn"),
        *("--set", "antiAffinity=preferred", "--set", "admin.existingSecret=a"),
        *("--set", "admin.tlsSecret=tls"),
    ),
    "claim": ("--set", "persistence.existingClaim=theirs"),
}

AGENT_DRAWN = {
    "plain": (),
    "everything": (
        *("--set", "settings=poll = '1s'", "--set", "rbac.deletePods=true"),
        *("--set", "rbac.leases=true"),
        *("--set", "podMonitor.enabled=true", "--set", "podMonitor.labels.release=a"),
        *("--set", "dashboard.enabled=true", "--set", "extraEnv[0].name=A"),
        *("--set", "imagePullSecrets[0].name=pull", "--set", "priorityClassName="),
        *("--set", "podLabels.a=b", "--set", "podAnnotations.a=b"),
        *("--set", "fullnameOverride=other", "--set", "maxUnavailable=2"),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart, with its page and values that take every branch of its templates."""

    name: str
    page: str
    drawn: Mapping[str, tuple[str, ...]]

    @property
    def directory(self) -> Path:
        return DEPLOY / "helm" / self.name

    def template(self, name: str) -> str:
        return (self.directory / "templates" / name).read_text("utf-8")

    def values(self) -> dict[str, Any]:
        text = (self.directory / "values.yaml").read_text("utf-8")
        return dict(flat(plain_yaml.read(text)))

    def page_text(self) -> str:
        return (ROOT / "docs" / self.page).read_text("utf-8")


SERVICE = Chart(
    name="forewarn", page="how-to/operate/containers-and-helm.md", drawn=SERVICE_DRAWN
)
AGENT = Chart(name="forewarn-agent", page="how-to/agent/helm.md", drawn=AGENT_DRAWN)
CHARTS = (SERVICE, AGENT)
each_chart = pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)


def flat(values: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value that is not a table, with its whole name."""
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from flat(value, f"{name}.{key}" if name else key)
    else:
        yield name, values


@each_chart
def test_the_page_has_every_value_with_its_default(chart: Chart) -> None:
    text = chart.page_text()
    rows = re.findall(r"^\| `([\w.]+)` \| `(.*?)` \|", text, re.MULTILINE)
    shown = dict(rows)
    assert len(rows) == len(shown)
    wanted = {
        name: value if isinstance(value, str) and value else json.dumps(value)
        for name, value in chart.values().items()
    }
    assert shown == wanted


@each_chart
def test_templates_use_exactly_the_chart_values(chart: Chart) -> None:
    used: set[str] = set()
    for file in (chart.directory / "templates").iterdir():
        used |= set(re.findall(r"\.Values\.(\w+(?:\.\w+)*)", file.read_text("utf-8")))
    names = chart.values()
    for value in used:
        assert any(f"{name}.".startswith(f"{value}.") for name in names), value
    for name in names:
        assert any(f"{name}.".startswith(f"{path}.") for path in used), name


@each_chart
def test_schema_has_exactly_the_chart_values(chart: Chart) -> None:
    schema = json.loads((chart.directory / "values.schema.json").read_text("utf-8"))
    free: set[str] = set()

    def walk(part: dict[str, Any], name: str) -> Iterator[str]:
        for key, value in part["properties"].items():
            own = f"{name}.{key}" if name else key
            if "properties" in value:
                assert value["additionalProperties"] is False, own
                yield from walk(value, own)
            elif value == {"type": "object"}:
                free.add(own)
            else:
                yield own

    known = {*walk(schema, "")}
    assert schema["additionalProperties"] is False
    for name in chart.values():
        inside = {value for value in free if f"{name}.".startswith(f"{value}.")}
        assert name in known or inside, name
    # Every chart has `global`, whether it wants it or not.
    assert known - set(chart.values()) == set()
    assert "global" in free


def test_chart_uses_variables_and_arguments_of_the_program() -> None:
    text = SERVICE.template("statefulset.yaml")
    known = {environment_name(name) for name in OPTIONS}
    used = set(re.findall(r"- name: (FOREWARN_\w+)", text))
    assert used <= known
    assert "FOREWARN_STORE_URL" in used
    command = re.findall(r"^ +- (serve|--?[a-z-]+|/etc/\S+)$", text, re.MULTILINE)
    arguments = [
        word for word in command if not word.startswith("/etc/forewarn-tokens")
    ]
    assert arguments[0] == "serve"
    parser.build(arguments).parse_args(arguments)


def test_chart_probes_paths_that_the_service_has() -> None:
    text = SERVICE.template("statefulset.yaml")
    assert set(re.findall(r'"path" "(/\w+)"', text)) == {"/healthz", "/readyz"}
    api = (ROOT / "docs" / "reference" / "http-api.md").read_text("utf-8")
    assert "/healthz" in api
    assert "/readyz" in api


@each_chart
def test_page_sets_only_existing_values(chart: Chart) -> None:
    text = chart.page_text()
    keys = re.findall(r"--set(?:-file)? '?([\w.]+)=", text)
    assert len(keys) > 4
    assert set(keys) <= set(chart.values())


def test_chart_runs_one_pod_unless_there_is_a_database() -> None:
    assert SERVICE.values()["replicas"] == 1
    text = SERVICE.template("statefulset.yaml")
    assert "(gt (int .Values.replicas) 1) (not .Values.postgresql.url)" in text


def test_settings_of_the_page_of_replicas_are_valid(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "operate" / "run-two-replicas.md"
    (block,) = re.findall(r"```toml\n(\[metadata\].*?)```", page.read_text(), re.DOTALL)
    file = tmp_path / "forewarn.toml"
    file.write_text(block, "utf-8")
    settings = load_settings(file=file, environ={}, flags={})
    assert settings.cluster.name == "r1"
    for name in ("url", "metadata_url"):
        port = getattr(settings.cluster, name).rpartition(":")[2]
        assert port in settings.admin.listen + settings.metadata.listen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chart", "drawn"),
    [(chart, drawn) for chart in CHARTS for drawn in chart.drawn],
    ids=lambda value: getattr(value, "name", value),
)
def test_helm_accepts_the_chart(chart: Chart, drawn: str) -> None:
    program = find("helm")
    if not program:
        pytest.skip("helm is not here: make real")
    directory = str(chart.directory)
    for arguments in (
        ("lint", "--strict", directory),
        ("template", "forewarn", directory),
    ):
        done = subprocess.run(
            [program, *arguments, *chart.drawn[drawn]],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("setting", ["hostNetwork=true", "admin.tlsSecret=tls"])
def test_helm_refuses_settings_that_need_tokens(setting: str) -> None:
    program = find("helm")
    if not program:
        pytest.skip("helm is not here: make real")
    done = subprocess.run(
        [program, "template", "forewarn", str(SERVICE.directory), "--set", setting],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "admin.tokens or admin.existingSecret" in done.stderr


# The agent's chart and the plain manifests


def test_agent_chart_grants_the_rights_of_the_manifests() -> None:
    """And more where pods may be deleted or Leases kept, which its values say."""
    text = AGENT.template("rbac.yaml")
    leases = "coordination.k8s.io", ("leases",), ("get", "create", "update")
    for value, rule in (
        ("deletePods", ("", ("pods",), ("delete",))),
        ("leases", leases),
    ):
        [more] = re.findall(
            rf"{{{{- if \.Values\.rbac\.{value} }}}}\n(.*?) *{{{{- end }}}}",
            text,
            re.DOTALL,
        )
        assert rules(more) == [rule]
        text = text.replace(more, "")
    wanted = [
        rule
        for name in ("clusterrole.yaml", "role.yaml")
        for rule in rules((MANIFESTS / name).read_text("utf-8"))
    ]
    assert rules(text) == wanted


def rules(text: str) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    matches = re.findall(
        r"- apiGroups: \[(.*?)\]\n +resources: \[(.*?)\]\n +verbs: \[(.*?)\]", text
    )
    return [
        (json.loads(group), words(resources), words(verbs))
        for group, resources, verbs in matches
    ]


def words(text: str) -> tuple[str, ...]:
    return tuple(json.loads(f"[{text}]"))


def test_agent_chart_starts_pods_like_the_manifest() -> None:
    """Each line of the manifest's container is in the template, but what is a value."""
    text = AGENT.template("daemonset.yaml")
    lines = [line.strip() for line in text.splitlines()]
    manifest = (MANIFESTS / "daemonset.yaml").read_text("utf-8")
    container = manifest[manifest.index("      containers:") :]
    values = {"cpu: 10m", "memory: 32Mi", "memory: 128Mi", "requests:", "limits:"}
    for line in container.splitlines():
        value = line.strip()
        is_value = value in values or value.startswith(
            ("image: ", "name: forewarn-agent")
        )
        if value and not value.startswith("#") and not is_value:
            assert value in lines, value
    shown = AGENT.values()
    assert shown["tolerations"] == [{"operator": "Exists"}]
    for name, value in (("requests.cpu", "10m"), ("limits.memory", "128Mi")):
        assert shown[f"resources.{name}"] == value


def test_agent_chart_contains_the_files_that_it_reads() -> None:
    used: set[str] = set()
    for file in (AGENT.directory / "templates").iterdir():
        used |= set(re.findall(r'\.Files\.Get "([^"]+)"', file.read_text("utf-8")))
    assert used == {"agent.toml", "dashboard.json"}
    for name, origin in (
        ("agent.toml", MANIFESTS / "agent.toml"),
        ("dashboard.json", dashboards.DIRECTORY / "forewarn-agent.json"),
    ):
        assert (AGENT.directory / name).read_bytes() == origin.read_bytes(), name


def test_chart_and_manifests_grant_the_same_lease_rights() -> None:
    directory = PARTS / "lock"
    role = plain_yaml.read((directory / "role.yaml").read_text("utf-8"))
    binding = plain_yaml.read((directory / "rolebinding.yaml").read_text("utf-8"))
    [rule] = role["rules"]
    assert rule == {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update"],
    }
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    account = plain_yaml.read((MANIFESTS / "serviceaccount.yaml").read_text("utf-8"))
    [subject] = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == (
        account["metadata"]["name"],
        account["metadata"]["namespace"],
    )
    # The page shows the role as it is, and the chart has the same rule.
    text = (directory / "role.yaml").read_text("utf-8")
    shown = text.partition("another one.\n")[2]
    page = (ROOT / "docs" / "how-to" / "agent" / "lock.md").read_text("utf-8")
    assert f"```yaml\n{shown}```" in page
    assert shown.partition("rules:\n")[2] in AGENT.template("rbac.yaml")
    whole = plain_yaml.read((directory / "kustomization.yaml").read_text("utf-8"))
    files = {path.name for path in directory.iterdir()} - {"kustomization.yaml"}
    assert {*whole["resources"]} == files


def test_each_component_of_the_manifests_can_be_applied_alone() -> None:
    names = {path.name for path in PARTS.iterdir()}
    assert names == {"lock", "monitoring"}
    for name in names:
        directory = DEPLOY / f"kubernetes-{name}"
        whole = plain_yaml.read((directory / "kustomization.yaml").read_text("utf-8"))
        assert whole["resources"] == ["../kubernetes"]
        assert whole["components"] == [f"../kubernetes-parts/{name}"]


def test_chart_and_manifests_expose_metrics_alike() -> None:
    directory = PARTS / "monitoring"
    monitor = plain_yaml.read((directory / "podmonitor.yaml").read_text("utf-8"))
    patch = plain_yaml.read((directory / "daemonset.yaml").read_text("utf-8"))
    [container] = patch["spec"]["template"]["spec"]["containers"]
    [port] = container["ports"]
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] == port["name"]
    [variable] = container["env"]
    assert variable["name"] == agent_environment_name("listen")
    assert variable["value"] == f"0.0.0.0:{port['containerPort']}"
    base = plain_yaml.read((MANIFESTS / "daemonset.yaml").read_text("utf-8"))
    labels = base["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"] == labels
    # The job of the alerts and of the dashboard.
    assert labels[monitor["spec"]["jobLabel"]] == "forewarn-agent"
    text = AGENT.template("podmonitor.yaml") + AGENT.template("daemonset.yaml")
    for line in (f"port: {port['name']}", variable["name"], endpoint["path"]):
        assert line in text, line


def test_statefulset_of_replicas_replaces_a_lost_pod_beside_one_that_is_not_ready() -> (
    None
):
    text = SERVICE.template("statefulset.yaml")
    # In order, forewarn-1 would not come back while forewarn-0 is on a lost node.
    assert re.search(
        r"\{\{- if \.Values\.postgresql\.url \}\}\n(?:  #.*\n)*"
        r"  podManagementPolicy: Parallel\n  \{\{- end \}\}\n",
        text,
    )


def test_page_moves_a_file_to_replicas_although_kubernetes_forbids_the_change() -> None:
    text = SERVICE.template("statefulset.yaml")
    _, _, rest = SERVICE.page_text().partition("### From one pod to two\n")
    section, _, _ = rest.partition("\n### ")
    for name in ("serviceName", "podManagementPolicy"):
        assert f"  {name}: " in text
        assert f"`{name}`" in section
    steps = [
        "scale statefulset forewarn --replicas=0",
        "- copy\n",
        "/var/lib/forewarn/forewarn.db",
        "claimName: store-forewarn-0",
        "delete statefulset forewarn --cascade=orphan",
        "helm upgrade forewarn",
    ]
    places = [section.find(step) for step in steps]
    assert places == sorted(places)
    assert -1 not in places
    mounted = re.search(r"mountPath: (/var/lib/forewarn)\n", text)
    assert mounted is not None
    assert "sqlite:////var/lib/forewarn/forewarn.db" in text
    assert "        name: store\n" in text
