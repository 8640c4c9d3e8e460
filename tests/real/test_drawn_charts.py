"""Helm draws valid manifests from the charts, and one pod can become two."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.test_charts import CHARTS, SERVICE, Chart
from tests.support.unpacked import find, needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.system,
    needing("helm", "kubernetes-validate"),
]

VERSIONS = ("1.29", "1.37")
"""The oldest and the newest Kubernetes for which each manifest is checked."""

PAIR = SERVICE.drawn["pair"]


def run(*words: str) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def drawn(chart: Chart, *values: str) -> str:
    return run(find("helm"), "template", "forewarn", str(chart.directory), *values)


def objects(*values: str) -> dict[tuple[str, str], Any]:
    """Return what is drawn of the service, by kind and name."""
    documents = [
        document for document in yaml.safe_load_all(drawn(SERVICE, *values)) if document
    ]
    return {
        (document["kind"], document["metadata"]["name"]): document
        for document in documents
    }


@pytest.mark.parametrize(
    ("chart", "name"),
    [(chart, name) for chart in CHARTS for name in chart.drawn],
    ids=lambda value: getattr(value, "name", value),
)
def test_every_manifest_has_the_schema_of_kubernetes(
    chart: Chart, name: str, tmp_path: Path
) -> None:
    file = tmp_path / f"{name}.yaml"
    file.write_text(drawn(chart, *chart.drawn[name]))
    for version in VERSIONS:
        arguments = ("--strict", "--no-warn", "-k", version, str(file))
        run(find("kubernetes-validate"), *arguments)


def test_schema_refuses_what_kubernetes_does_not_know(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    text = drawn(SERVICE, *PAIR)
    assert text.count("replicas: 2") == 1
    file.write_text(text.replace("replicas: 2", "replica: 2"))
    with pytest.raises(AssertionError, match="replica"):
        run(find("kubernetes-validate"), "--strict", "-k", VERSIONS[-1], str(file))


def test_two_pods_are_apart_and_known_by_their_names() -> None:
    pair = objects(*PAIR)
    spec = pair["StatefulSet", "forewarn"]["spec"]
    assert spec["replicas"] == 2
    [container] = spec["template"]["spec"]["containers"]
    value_by_name = {
        variable["name"]: variable.get("value") for variable in container["env"]
    }
    service = pair["Service", spec["serviceName"]]["spec"]
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True
    for key, port in (("URL", "admin"), ("METADATA_URL", "metadata")):
        url = value_by_name[f"FOREWARN_CLUSTER_{key}"]
        [number] = {
            entry["containerPort"]
            for entry in container["ports"]
            if entry["name"] == port
        }
        assert url.endswith(f"$(FOREWARN_CLUSTER_NAME).{spec['serviceName']}:{number}")
    affinity = spec["template"]["spec"]["affinity"]["podAntiAffinity"]
    [apart] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = spec["template"]["metadata"]["labels"]
    assert apart["labelSelector"]["matchLabels"].items() <= labels.items()
    budget = pair["PodDisruptionBudget", "forewarn"]["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= labels.items()


def test_one_pod_with_postgresql_becomes_two_by_an_upgrade() -> None:
    """Kubernetes changes no other fields of a StatefulSet than these."""
    may_change = {
        *("replicas", "template", "updateStrategy", "minReadySeconds"),
        *("persistentVolumeClaimRetentionPolicy", "revisionHistoryLimit", "ordinals"),
    }
    one, two = (
        objects(*PAIR, "--set", f"replicas={count}")["StatefulSet", "forewarn"]["spec"]
        for count in (1, 2)
    )
    changed = {key for key in {*one, *two} if one.get(key) != two.get(key)}
    assert changed == {"replicas", "template"}
    assert changed <= may_change


def test_one_pod_with_a_file_is_created_again_as_the_page_says() -> None:
    file = objects(*SERVICE.drawn["secret"])["StatefulSet", "forewarn"]["spec"]
    pair = objects(*PAIR)["StatefulSet", "forewarn"]["spec"]
    changed = {key for key in {*file, *pair} if file.get(key) != pair.get(key)}
    assert changed == {"replicas", "template", "serviceName", "podManagementPolicy"}
    page = SERVICE.page_text()
    assert "delete statefulset forewarn --cascade=orphan" in page
    # The volume of the first pod stays the same: it has the memory of the driver.
    assert file["volumeClaimTemplates"] == pair["volumeClaimTemplates"]
