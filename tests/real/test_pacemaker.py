"""The handler `pacemaker` beside Pacemaker's own commands and scheduler.

No daemon runs: the commands work on a cluster's configuration in a file (`CIB_file`),
and before each look the real scheduler is asked what it would do, and does it
(`crm_simulate`). What answers is Pacemaker, but for `crm_node`, which needs a daemon.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.handled import Handled
from tests.support.unpacked import PATH, TOOLS, environment, find, is_unpacked, needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.system,
    pytest.mark.slow,
    needing("crm_simulate"),
]

CIB = """<cib crm_feature_set="3.7.0" validate-with="pacemaker-3.7" epoch="1"
 num_updates="0" admin_epoch="0" have-quorum="1" dc-uuid="1">
  <configuration>
    <crm_config><cluster_property_set id="options">
      <nvpair id="o1" name="stonith-enabled" value="false"/>
    </cluster_property_set></crm_config>
    <nodes><node id="1" uname="n1"/><node id="2" uname="n2"/></nodes>
    <resources>
      <primitive id="db" class="ocf" provider="pacemaker" type="Dummy"/>
      <group id="web">
        <primitive id="ip" class="ocf" provider="pacemaker" type="Dummy"/>
        <primitive id="app" class="ocf" provider="pacemaker" type="Dummy"/>
      </group>
      <clone id="ping-clone">
        <primitive id="ping" class="ocf" provider="pacemaker" type="Dummy"/>
      </clone>
      <clone id="state-clone"><meta_attributes id="m1">
        <nvpair id="m2" name="promotable" value="true"/></meta_attributes>
        <primitive id="state" class="ocf" provider="pacemaker" type="Stateful"/>
      </clone>
    </resources>
    <constraints>
      <rsc_location id="l1" rsc="db" node="n1" score="100"/>
      <rsc_location id="l2" rsc="web" node="n1" score="100"/>
      <rsc_location id="l3" rsc="state-clone" role="Promoted" node="n1" score="100"/>
      <rsc_location id="l4" rsc="state-clone" role="Promoted" node="n2" score="50"/>
    </constraints>
  </configuration>
  <status>
    <node_state id="1" uname="n1" in_ccm="true" crmd="online" join="member"
     expected="member"/>
    <node_state id="2" uname="n2" in_ccm="true" crmd="online" join="member"
     expected="member"/>
  </status>
</cib>
"""


class Real:
    """A cluster in a file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cib = directory / "cluster.xml"
        self.cib.write_text(CIB)
        self.environment = {
            **os.environ,
            **environment("crm_mon", CIB_file=str(self.cib)),
            "PATH": f"{directory}:{PATH}",
        }
        if is_unpacked("crm_mon"):
            schemas = str(TOOLS / "usr/share/pacemaker")
            self.environment["PCMK_schema_directory"] = schemas
        self.freeze = directory / "frozen"
        # The scheduler has its way before each look, unless the test holds it up.
        self._script(
            "crm_mon",
            f'[ -e "{self.freeze}" ] || env -u CIB_file "{find("crm_simulate")}" '
            f'--simulate --xml-file "{self.cib}" --save-output "{self.cib}.new" '
            f'>"{directory}/simulated" 2>&1 && mv "{self.cib}.new" "{self.cib}"\n'
            f'exec "{find("crm_mon")}" "$@"',
        )
        self._script("crm_node", "echo n1")

    def _script(self, name: str, text: str) -> None:
        (self.directory / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.directory / name).chmod(0o755)

    def ask(self, *words: str) -> str:
        done = subprocess.run(
            words,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def option(self, name: str, value: str) -> None:
        command = ("crm_attribute", "--type=crm_config", f"--name={name}")
        self.ask(*command, f"--update={value}")

    def attribute(self, node: str, name: str, value: str = "") -> None:
        option = f"--update={value}" if value else "--delete"
        self.ask("crm_attribute", f"--node={node}", f"--name={name}", option)

    def on(self, node: str) -> list[str]:
        """Return what runs on a node, as Pacemaker tells people."""
        text = self.ask(
            "crm_mon",
            "-1",
            "--group-by-node",
            "--exclude=all",
            "--include=nodes,resources",
        )
        section = text.partition(f"Node {node}")[2].partition("* Node")[0]
        return sorted(line.split()[1] for line in section.splitlines() if "\t(" in line)

    def handler(self, settings: str = "") -> Handled:
        return Handled("pacemaker", settings, self.directory, self.environment)


@pytest.fixture
def cluster(tmp_path: Path) -> Real:
    real = Real(tmp_path)
    real.ask("crm_mon", "--output-as=xml")
    assert real.on("n1") == ["app", "db", "ip", "ping", "state"]
    return real


def test_resources_are_moved_away_and_allowed_back(cluster: Real) -> None:
    handler = cluster.handler()
    assert handler.check() == []
    assert handler.prepare() == "moved away: db, ip, app, ping, state"
    assert cluster.on("n1") == []
    assert cluster.on("n2") == ["app", "db", "ip", "ping", "state"]
    handler.again()
    assert handler.prepare() == "n1 hosts no resources, and nothing runs on it"
    assert handler.recover() == "n1 hosts resources again"
    assert "db" in cluster.on("n1")
    assert handler.recover() == "n1 was not put into standby by forewarn"


def test_standby_can_last_until_the_node_restarts(cluster: Real) -> None:
    handler = cluster.handler('lifetime = "reboot"')
    handler.prepare()
    assert cluster.on("n1") == []
    assert handler.recover() == "n1 hosts resources again"
    assert "db" in cluster.on("n1")


def test_lack_of_another_node_is_reported(cluster: Real) -> None:
    cluster.attribute("n2", "standby", "on")
    handler = cluster.handler()
    message = handler.fails("prepare", 3.0)
    assert message.endswith(
        "no other node can host the resources: db, ip, app, ping, state"
    )
    assert handler.recover() == "n1 was not put into standby by forewarn"
    assert "db" in cluster.on("n1")
    stop = cluster.handler('alone = "stop"')
    assert stop.prepare().startswith("stopped, since no other node can host them: db")
    assert cluster.on("n1") == []


def test_standby_set_by_an_operator_is_kept(cluster: Real) -> None:
    cluster.attribute("n1", "standby", "on")
    handler = cluster.handler()
    assert handler.prepare() == "n1 was already in standby; nothing runs on it"
    assert handler.recover() == "n1 was not put into standby by forewarn"
    assert cluster.on("n1") == []


def test_maintenance_mode_is_reported(cluster: Real) -> None:
    cluster.option("maintenance-mode", "true")
    message = cluster.handler().fails("prepare", 3.0)
    assert message.endswith("the cluster is in maintenance mode, so it moves nothing")


def test_unmanaged_resource_is_reported(cluster: Real) -> None:
    cluster.ask(
        *("crm_resource", "--resource=db", "--meta", "--set-parameter=is-managed"),
        "--parameter-value=false",
    )
    message = cluster.handler().fails("prepare")
    assert message == "the cluster does not move all resources: db (unmanaged)"
    assert cluster.handler('leave = "db"').prepare().startswith("n1 hosts no resources")


def test_resource_that_cannot_run_elsewhere_is_reported(cluster: Real) -> None:
    cluster.ask("crm_resource", "--resource=db", "--ban", "--node=n2")
    message = cluster.handler().fails("prepare", 3.0)
    assert message.endswith("waiting for db to run on another node")


def test_health_mode_moves_resources_away_and_back(cluster: Real) -> None:
    handler = cluster.handler('mode = "health"')
    assert "the cluster ignores the health of its nodes" in handler.fails("prepare")
    cluster.option("node-health-strategy", "migrate-on-red")
    assert handler.prepare() == "moved away: db, ip, app, ping, state"
    assert cluster.on("n1") == []
    assert handler.recover() == "n1 hosts resources again"
    assert "db" in cluster.on("n1")


def test_constraints_of_azure_events_az_keep_working(cluster: Real) -> None:
    """A rule for each resource, that looks at its attribute."""
    cluster.option("node-health-strategy", "custom")
    for name in ("db", "web", "ping-clone", "state-clone"):
        rule = (
            f'<rsc_location id="h-{name}" rsc="{name}">'
            f'<rule id="r-{name}" score-attribute="#health-azure">'
            f'<expression id="e-{name}" attribute="#uname" operation="defined"/>'
            "</rule></rsc_location>"
        )
        cluster.ask("cibadmin", "--create", "--scope=constraints", f"--xml-text={rule}")
    for node in ("n1", "n2"):
        cluster.attribute(node, "#health-azure", "0")
    handler = cluster.handler('mode = "health"\nhealth_attribute = "#health-azure"')
    assert handler.prepare() == "moved away: db, ip, app, ping, state"
    assert cluster.on("n1") == []
    assert handler.recover() == "n1 hosts resources again"
    assert "db" in cluster.on("n1")
    # Without a value, the rule would keep everything away.
    command = (
        "crm_attribute",
        "--node=n1",
        "--name=#health-azure",
        "--query",
        "--quiet",
    )
    assert cluster.ask(*command).strip() == "0"


def test_missing_cluster_is_reported(cluster: Real) -> None:
    del cluster.environment["CIB_file"]
    (cluster.directory / "crm_mon").unlink()
    message = cluster.handler('node = "n1"').fails("prepare", 3.0)
    assert "asking Pacemaker (crm_mon): " in message
    assert "onnection" in message
    (cluster.directory / "crm_node").unlink()
    assert "asking Pacemaker (crm_node): " in cluster.handler().check()[0]
