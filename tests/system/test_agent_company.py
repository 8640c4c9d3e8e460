"""Several agents and one event: who approves, and when (clause 8.6)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.core.model import Stage
from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.agents import (
    DRAIN,
    AgentProcess,
    Ground,
    free_port,
    ground,
)
from tests.support.processes import Serving, eventually
from tests.support.profiles import some
from tests.support.pythons import Python

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.clause("8.6")]

VMS = ("web_0", "web_1", "web_2")


@pytest.fixture
def place(loop: LoopThread, python: Python, tmp_path: Path) -> Iterator[Ground]:
    """Have three VMs on one host."""
    fleet = fleets.fleet_text(3, together=True)
    with ground(loop, tmp_path, fleet=fleet, python=python) as new_ground:
        yield new_ground


def rule(approver: str, *, takeover: str = "1s") -> str:
    lines = ["[[rule]]", 'handlers = ["drain"]', f'approver = "{approver}"']
    if approver != "any":
        lines.append(f'takeover = "{takeover}"')
    return "\n".join([*lines, ""])


class Company:
    """An agent in each VM, which may ask each other."""

    def __init__(
        self, place: Ground, approver: str, *, peers: bool, takeover: str = "1s"
    ) -> None:
        self.place = place
        ports = {vm: free_port() for vm in VMS}
        token = place.directory / "token"
        token.write_text("s3cret\n")
        urls = ", ".join(
            f'{vm} = "http://127.0.0.1:{port}"' for vm, port in ports.items()
        )
        self.agents: dict[str, AgentProcess] = {}
        for vm in VMS:
            table = (
                f'[peers]\nlisten = "127.0.0.1:{ports[vm]}"\n'
                f'token_file = "{token}"\nurl = {{ {urls} }}\n'
            )
            settings = (
                f"{table if peers else ''}{DRAIN}{rule(approver, takeover=takeover)}"
            )
            self.agents[vm] = place.agent(vm, settings)
        for agent in self.agents.values():
            agent.wait_ready()

    def reboot(self) -> str:
        """Announce one reboot to all VMs; return its ID."""
        return self.place.event("Reboot", VMS)

    def wait_over(self, event: str) -> None:
        for agent in self.agents.values():
            agent.wait_stage(event, Stage.FINISHED)
            done = [run.phase for run in agent.did("done")]
            assert done == ["prepare", "recover"]


def test_each_agent_approves_once_with_approver_any(place: Ground) -> None:
    company = Company(place, "any", peers=False)
    event = company.reboot()
    company.wait_over(event)
    approvals = place.approvals(event)
    assert approvals
    assert len(set(approvals)) == len(approvals)


def test_only_the_leader_approves(place: Ground) -> None:
    company = Company(place, "leader", peers=False, takeover="10s")
    for vm in ("web_1", "web_2"):
        company.agents[vm].hold("drain.recover")
    event = company.reboot()
    place.wait_approved(event, "web_0")
    for vm in ("web_1", "web_2"):
        company.agents[vm].wait_did("begun recover drain")
        company.agents[vm].release("drain.recover")
    company.wait_over(event)
    assert place.approvals(event) == ["web_0"]


def test_second_agent_takes_over_from_a_killed_leader(place: Ground) -> None:
    company = Company(place, "leader", peers=False)
    company.agents["web_0"].hold("drain.prepare")
    event = company.reboot()
    for agent in company.agents.values():
        agent.wait_did("begun prepare drain")
    company.agents["web_0"].kill()
    place.wait_approved(event, "web_1")
    for vm in ("web_1", "web_2"):
        company.agents[vm].wait_stage(event, Stage.FINISHED)
    assert place.approvals(event) == ["web_1"]


def test_living_leader_is_given_its_time(place: Ground) -> None:
    """Peers see that it lives and still prepares, so none takes over."""
    company = Company(place, "leader", peers=True, takeover="4s")
    company.agents["web_0"].hold("drain.prepare")
    event = company.reboot()
    for vm in ("web_1", "web_2"):
        company.agents[vm].wait_did("done prepare drain")
        company.agents[vm].wait(
            lambda agent: dict(agent.memory().tasks[0].peers_alive).get("web_0")
        )
    company.agents["web_0"].release("drain.prepare")
    place.wait_approved(event, "web_0")
    company.wait_over(event)
    assert place.approvals(event) == ["web_0"]


def test_approval_waits_until_all_agents_are_prepared(place: Ground) -> None:
    company = Company(place, "all", peers=True)
    company.agents["web_2"].hold("drain.prepare")
    event = company.reboot()
    for vm in ("web_0", "web_1"):
        company.agents[vm].wait_did("done prepare drain")

        def knows(agent: AgentProcess) -> bool:
            task = agent.memory().tasks[0]
            alive = dict(task.peers_alive)
            return "web_2" in alive and len(task.peers_ready) == 1

        company.agents[vm].wait(knows, "who is prepared")
    assert place.posts(event) == []
    company.agents["web_2"].release("drain.prepare")
    eventually(lambda: place.approvals(event), bool)
    company.wait_over(event)
    assert place.approvals(event)[0] == "web_0"


def test_nothing_is_approved_while_one_agent_is_silent(place: Ground) -> None:
    company = Company(place, "all", peers=True)
    company.agents["web_1"].kill()
    event = company.reboot()
    for vm in ("web_0", "web_2"):
        company.agents[vm].wait_did("done prepare drain")
    asker = company.agents["web_0"]
    asker.wait(lambda agent: "the agent of web_1 gives no answer" in agent.log())
    asker.wait(lambda agent: "web_2" in agent.memory().tasks[0].peers_ready)
    assert place.posts(event) == []
    # An operator may know better.
    done = asker.command("approve", event)
    assert done.returncode == 0, done.stderr
    place.wait_approved(event, "web_0")


def test_caller_without_a_valid_token_gets_no_status(place: Ground) -> None:
    company = Company(place, "all", peers=True)
    company.agents["web_2"].hold("drain.prepare")
    event = company.reboot()
    company.agents["web_1"].wait_stage(event, Stage.PREPARED)
    text = (company.agents["web_1"].directory / "agent.toml").read_text()
    listen = text.partition('[peers]\nlisten = "')[2].partition('"')[0]
    where = f"http://{listen}/v1/events/{event}"
    status, body = place.world.ask(where, token="s3cret")
    assert (status, body["vm"], body["prepared"]) == (200, "web_1", True)
    for other, token in ((where, "other"), (f"http://{listen}/status", "s3cret")):
        with pytest.raises(ValueError, match="Expecting value"):
            # The response is a text instead of JSON.
            place.world.ask(other, token=token)


STANDBY = """
[standby]
names = ["web_1"]
after = "1s"
"""


@pytest.mark.clause("8.3")
def test_standby_approves_for_a_silent_vm_if_configured(
    place: Ground,
) -> None:
    place.agent("web_0", STANDBY + DRAIN).wait_ready()
    user = place.event("Reboot", ["web_1"], source="User")
    platform = place.event("Reboot", ["web_2"])
    place.wait_approved(user, "web_0")
    eventually(lambda: len(place.world.events("web_0")), (1).__eq__)
    assert place.posts(platform) == []


@pytest.mark.clause("8.3")
def test_agent_does_not_approve_for_other_vms_by_default(place: Ground) -> None:
    agent = place.agent("web_0").wait_ready()
    event = place.event("Reboot", ["web_1"], source="User", notice="2s")
    agent.wait_stage(event, Stage.FINISHED)
    assert place.posts() == []


# With the service in a process of its own.

FLEET = """
[[scope]]
name = "web"
kind = "availability-set"
[[host]]
name = "spare"
[[host]]
name = "h1"
""" + "".join(
    f"""
[[vm]]
name = "{vm}"
host = "h1"
scope = "web"
listen = "127.0.0.1:0"
"""
    for vm in VMS[:2]
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(
        tmp_path / "service", FLEET, timing_speed="60", timing_recovery="30s"
    )
    yield serving.wait_ready()
    serving.process.kill()
    serving.process.wait()


@pytest.fixture
def residents(
    service: Serving, python: Python, tmp_path: Path
) -> Iterator[list[AgentProcess]]:
    settings = DRAIN + rule("leader", takeover="5s")
    agent_processes = [
        AgentProcess(tmp_path / vm, service.urls[f"VM {vm}"], settings, python=python)
        for vm in VMS[:2]
    ]
    for agent in agent_processes:
        agent.wait_ready()
    yield agent_processes
    for agent in agent_processes:
        agent.process.kill()
        agent.process.wait()


@pytest.mark.parametrize("impact", some(["live-migrate", "reboot"], usual=["reboot"]))
def test_service_maintenance_is_prepared_by_each_agent_and_approved_by_one(
    service: Serving, residents: list[AgentProcess], impact: str
) -> None:
    service.admin("/v1/maintain", {"hosts": ["h1"], "impact": impact})
    for agent in residents:
        agent.wait(lambda agent: agent.memory().tasks)
        [task] = agent.memory().tasks
        agent.wait_stage(task.event_id, Stage.FINISHED)
        assert [run[1] for run in agent.did("done")] == ["prepare", "recover"]
    kinds_by_agent = [agent.told() for agent in residents]
    assert ["approved" in kinds for kinds in kinds_by_agent] == [True, False]


def test_failed_host_is_recovered_from_when_it_is_back(
    service: Serving, residents: list[AgentProcess]
) -> None:
    for agent in residents:
        agent.kill()
    service.admin("/v1/fail", {"names": ["h1"]})
    for agent in residents:
        agent.again()
        agent.wait(lambda agent: agent.memory().tasks)
        assert "started" in agent.told()
    service.admin("/v1/restore", {"names": ["h1"]})
    for agent in residents:
        [task] = agent.memory().tasks
        agent.wait_stage(task.event_id, Stage.FINISHED)
        assert [run[1] for run in agent.did("done")] == ["prepare", "recover"]
        assert "approved" not in agent.told()
