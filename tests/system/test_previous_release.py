"""The agent of the previous release in VMs of this service, and its upgrade."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.agents import Did, Ground, ground
from tests.support.earlier import unpack
from tests.support.pythons import THIS, Python
from tests.support.residents import SOON

pytestmark = [pytest.mark.system, pytest.mark.slow]

RELEASED = "bc5fad449415bfe6664fcf6153207885c31b98dc"
"""The commit of 0.1.0."""
VMS = ("web_0", "web_1", "web_2")


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Python:
    """Return the previous release's agent, from the history of the project."""
    source = unpack(RELEASED, "0.1.0", tmp_path_factory.mktemp("released"))
    # Python runs this file with its directory before the installed package.
    start = source / "__main__.py"
    start.write_text(
        "import runpy; runpy.run_module('forewarn.agent', None, '__main__')"
    )
    return Python(sys.executable, str(start.parent))


@pytest.fixture
def place(loop: LoopThread, previous: Python, tmp_path: Path) -> Iterator[Ground]:
    """Have three VMs, whose events advance only when the test moves them."""
    fleet = fleets.fleet_text(3)
    with ground(loop, tmp_path, fleet=fleet, speed=1, python=previous) as new_ground:
        yield new_ground


def test_previous_agent_prepares_approves_and_recovers(place: Ground) -> None:
    agent, *others = [place.agent(vm, soon="") for vm in VMS]
    for kind in ("Reboot", "Freeze", "Redeploy"):
        event = place.event(kind, VMS[:1])
        agent.wait(lambda _, event=event: place.approvals(event), "its approval")
        agent.wait(lambda agent, kind=kind: f"{kind} started" in agent.log(), "start")
        place.move(event, "removed")
        agent.wait(
            lambda agent, event=event: (
                Did("done", "recover", "drain", event) in agent.did()
            ),
            f"recovery from {kind}",
        )
    assert [other.did() for other in others] == [[], []]


def test_previous_agent_is_upgraded_between_its_preparation_and_the_end(
    place: Ground,
) -> None:
    """The new agent reads the old journal: it approves and recovers once."""
    agent = place.agent(soon="")
    agent.hold("drain.prepare")
    event = place.event()
    agent.wait_did("begun prepare drain")
    agent.kill()
    with (agent.directory / "agent.toml").open("a") as settings:
        settings.write(SOON)
    agent.again(THIS)
    agent.release("drain.prepare")
    place.wait_approved(event, VMS[0])
    place.finish(event, agent)
    did = [run.phase for run in agent.did("done")]
    assert (did[-1], did.count("recover")) == ("recover", 1)
    assert agent.told(event)[0] == "seen"
