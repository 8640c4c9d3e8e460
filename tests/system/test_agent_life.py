"""An agent at work: a real process beside a real endpoint, with real handlers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.core.model import Consent, Stage
from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.agents import DRAIN, AgentProcess, Ground, ground, handler
from tests.support.processes import eventually
from tests.support.profiles import some
from tests.support.pythons import Python
from tests.support.receivers import receiving

pytestmark = [pytest.mark.system, pytest.mark.slow]

ALL_EVENTS = """
[[rule]]
handlers = ["drain"]
"""
"""Also those that have started, which the default rules only log."""

SHORT_FREEZE = (
    """
[[rule]]
type = ["Freeze"]
max_duration = 8
handlers = []
approve = "at once"
"""
    + ALL_EVENTS
)


@pytest.fixture
def place(loop: LoopThread, python: Python, tmp_path: Path) -> Iterator[Ground]:
    """Have three VMs, each on a host of its own."""
    with ground(
        loop, tmp_path, fleet=fleets.fleet_text(3), python=python
    ) as new_ground:
        yield new_ground


@pytest.fixture
def still_place(loop: LoopThread, python: Python, tmp_path: Path) -> Iterator[Ground]:
    """Have the same, with events that advance only when the test moves them."""
    fleet = fleets.fleet_text(3)
    with ground(loop, tmp_path, fleet=fleet, speed=1, python=python) as new_ground:
        yield new_ground


def recovered(agent: AgentProcess, *events: str) -> AgentProcess:
    """Return the agent when these events have ended, and no recovery is pending."""
    for event in events:
        agent.wait_stage(event, Stage.FINISHED)
    return agent


@pytest.mark.pythons
@pytest.mark.clause("8.3", "8.5")
def test_agent_prepares_approves_and_recovers(still_place: Ground) -> None:
    agent = still_place.agent().wait_ready()
    event = still_place.event()
    agent.wait_did("done prepare drain")
    still_place.wait_approved(event, "web_0")
    still_place.finish(event, agent)
    recovered(agent, event)
    assert [run[:3] for run in agent.did("done")] == [
        ("done", "prepare", "drain"),
        ("done", "recover", "drain"),
    ]
    assert agent.told() == [
        "seen",
        "preparing",
        "prepared",
        "approved",
        "started",
        "gone",
        "recovering",
        "recovered",
    ]


@pytest.mark.clause("8.4")
def test_a_short_freeze_of_a_live_migration_is_approved_at_once(place: Ground) -> None:
    agent = place.agent(settings=DRAIN + SHORT_FREEZE).wait_ready()
    event = place.event("Freeze", duration="5s", migrate=True)
    place.wait_approved(event, "web_0")
    recovered(agent, event)
    assert agent.did() == []


@pytest.mark.clause("8.4")
@pytest.mark.parametrize("duration", ["9s", "-1"])
def test_long_live_migration_is_prepared_for(place: Ground, duration: str) -> None:
    agent = place.agent(settings=DRAIN + SHORT_FREEZE).wait_ready()
    agent.hold("drain.prepare")
    seconds: object = duration if duration.endswith("s") else int(duration)
    event = place.event("Freeze", duration=seconds, migrate=True)
    agent.wait_did("begun prepare drain")
    assert place.posts() == []
    agent.release("drain.prepare")
    place.wait_approved(event, "web_0")
    recovered(agent, event)


EVERY_KIND = """
[[handler]]
name = "lb"
kind = "webhook"
prepare = "URL/drain/{vm}"
recover = "URL/undrain/{vm}"

[[handler]]
name = "py"
kind = "python"
prepare = "own:prepare"
recover = "own:recover"
environment = { PYTHONPATH = "DIRECTORY" }
directory = "DIRECTORY"

[[rule]]
handlers = ["drain", ["lb", "py"]]
"""

OWN = """
def prepare(job):
    note(job, "prepare")

def recover(job):
    note(job, "recover")

def note(job, phase):
    with open("did", "a") as file:
        file.write(f"done {phase} py x\\n")
"""


@pytest.mark.clause("8.5")
def test_handlers_of_every_kind_run_in_the_order_of_the_rule(
    place: Ground,
) -> None:
    with receiving() as receiver:
        settings = DRAIN + EVERY_KIND.replace("URL", receiver.url)
        directory = place.directory / "web_0"
        directory.mkdir()
        (directory / "own.py").write_text(OWN)
        agent = place.agent(settings=settings).wait_ready()
        event = place.event()
        place.wait_approved(event, "web_0")
        recovered(agent, event)
        targets = [request.target for request in receiver.came]
    assert targets == ["/drain/web_0", "/undrain/web_0"]
    done = [run[1:3] for run in agent.did("done")]
    assert done[:2] == [("prepare", "drain"), ("prepare", "py")]
    # The last preparation is recovered first.
    assert done[2:] == [("recover", "py"), ("recover", "drain")]


@pytest.mark.long
def test_spot_eviction_runs_the_highest_priority_first(place: Ground) -> None:
    """An optional handler that does not fit into the remaining seconds is stopped."""
    settings = (
        handler("tidy", priority=1)
        + handler("report", priority=0, required="0").replace('"0"', "false")
        + handler("save", priority=9)
        + '[[rule]]\nhandlers = ["tidy", "report", "save"]\n'
    )
    agent = place.agent(settings=settings).wait_ready()
    agent.hold("report.prepare")
    event = place.event("Preempt", notice="12s")
    agent.wait(lambda agent: agent.task(event))
    last = agent.task(event)
    assert last is not None
    assert last.notice.not_before is not None
    place.wait_approved(event, "web_0")
    assert [run[:3] for run in agent.did()] == [
        ("begun", "prepare", "save"),
        ("done", "prepare", "save"),
        ("begun", "prepare", "tidy"),
        ("done", "prepare", "tidy"),
        ("begun", "prepare", "report"),
        ("stopped", "prepare", "report"),
    ]
    task = agent.task(event)
    assert task is not None
    # It starts as soon as it is approved, and has no NotBefore any more.
    assert task.prepared <= last.notice.not_before


def test_preempt_is_not_approved_if_a_required_handler_times_out(
    place: Ground,
) -> None:
    agent = place.agent().wait_ready()
    agent.hold("drain.prepare")
    event = place.event("Preempt", notice="6s")
    agent.wait_did("stopped prepare drain")
    agent.wait(lambda agent: "withheld" in agent.told(event))
    assert place.posts() == []


def test_handlers_of_a_cancelled_event_are_stopped_and_undone(place: Ground) -> None:
    agent = place.agent().wait_ready()
    agent.hold("drain.prepare")
    event = place.event()
    agent.wait_did("begun prepare drain")
    place.move(event, "cancelled")
    agent.wait_did("stopped prepare drain", "done recover drain")
    recovered(agent, event)
    assert "cancelled" in agent.told(event)
    assert place.posts() == []


def test_restarted_agent_finds_the_failure_of_its_host(
    place: Ground,
) -> None:
    """It dies with its VM; when that is back, it does what can still be done."""
    agent = place.agent(settings=DRAIN + ALL_EVENTS).wait_ready()
    agent.kill()
    status, response = place.world.api("fail", {"names": ["h0"]})
    assert status == 201, response
    agent.again()
    agent.wait_did("done prepare drain")
    [task] = agent.memory().tasks
    assert place.world.api("restore", {"names": ["h0"]})[0] == 200
    recovered(agent, task.event_id)
    assert [run.phase for run in agent.did("done")] == ["prepare", "recover"]
    assert agent.told()[:2] == ["seen", "started"]
    assert place.posts() == []


def test_prepared_vm_recovers_after_downtime(place: Ground) -> None:
    agent = place.agent().wait_ready()
    event = place.event()
    place.wait_approved(event, "web_0")
    agent.kill()
    eventually(lambda: place.world.events("web_0"), lambda events: not events)
    agent.again()
    recovered(agent, event)
    assert [run[:2] for run in agent.did("done")] == [
        ("done", "prepare"),
        ("done", "recover"),
    ]
    assert place.approvals(event) == ["web_0"]


@pytest.mark.clause("8.8")
def test_upgrade_during_a_preparation_does_not_interrupt_it(
    place: Ground,
) -> None:
    """The handler continues meanwhile, is found again, and does not run twice."""
    agent = place.agent().wait_ready()
    agent.hold("drain.prepare")
    event = place.event()
    agent.wait_did("begun prepare drain")
    assert agent.terminate() == 0
    agent.again()
    agent.wait(lambda agent: len(place.world.events()) == 1)
    agent.wait_ready()
    assert agent.did("stopped") == []
    agent.release("drain.prepare")
    place.wait_approved(event, "web_0")
    recovered(agent, event)
    assert [run[:2] for run in agent.did("begun")] == [
        ("begun", "prepare"),
        ("begun", "recover"),
    ]


@pytest.mark.clause("8.8")
def test_preparation_that_ended_without_an_agent_is_found(
    place: Ground,
) -> None:
    agent = place.agent().wait_ready()
    agent.hold("drain.prepare")
    event = place.event()
    agent.wait_did("begun prepare drain")
    agent.kill()
    agent.release("drain.prepare")
    eventually(lambda: agent.did("done"), bool)
    agent.again()
    place.wait_approved(event, "web_0")
    recovered(agent, event)
    assert len(agent.did("begun")) == 2


@pytest.mark.clause("8.8")
def test_event_cancelled_without_an_agent_is_undone(
    place: Ground,
) -> None:
    """The running handler is found, stopped, and recovered from."""
    agent = place.agent().wait_ready()
    agent.hold("drain.prepare")
    event = place.event()
    agent.wait_did("begun prepare drain")
    agent.kill()
    place.move(event, "cancelled")
    agent.again()
    agent.wait_did("stopped prepare drain", "done recover drain")
    recovered(agent, event)
    assert [run[:2] for run in agent.did("begun")] == [
        ("begun", "prepare"),
        ("begun", "recover"),
    ]


@pytest.mark.clause("8.1")
@pytest.mark.parametrize("fault", some(["refuse", "503", "timeout"], usual=["timeout"]))
def test_endpoint_outage_does_not_stop_a_preparation(place: Ground, fault: str) -> None:
    agent = place.agent(top='timeout = "500ms"\n').wait_ready()
    agent.hold("drain.prepare")
    event = place.event()
    agent.wait_did("begun prepare drain")
    place.faults(fault if fault == "refuse" else f"{fault} any lost", "web_0")
    agent.release("drain.prepare")
    agent.wait_did("done prepare drain")

    def has_tried(agent: AgentProcess) -> bool:
        task = agent.task(event)
        return task is not None and task.tries >= 2

    agent.wait(has_tried)
    # Another VM sees that nothing was approved yet.
    assert place.world.events("web_1")[0]["EventStatus"] == "Scheduled"
    place.clear()
    recovered(agent, event)
    assert len(agent.did("begun")) == 2
    counted = [post for post in place.posts(event) if post["genuine"] == 200]
    assert len(counted) == 1


@pytest.mark.clause("8.1")
def test_event_removed_during_an_endpoint_outage_is_recovered_from(
    still_place: Ground,
) -> None:
    agent = still_place.agent().wait_ready()
    event = still_place.event()
    agent.wait_did("done prepare drain")
    still_place.wait_approved(event, "web_0")
    still_place.faults("500", "web_0")
    still_place.move(event, "removed")
    eventually(lambda: still_place.world.events("web_1"), lambda events: not events)
    assert [run.phase for run in agent.did("begun")] == ["prepare"]
    still_place.clear()
    recovered(agent, event)


@pytest.mark.clause("8.7")
def test_recovery_waits_for_the_last_of_overlapping_events(place: Ground) -> None:
    agent = place.agent().wait_ready()
    first = place.event("Reboot")
    place.wait_approved(first, "web_0")
    second = place.event("Freeze", duration="60s")
    agent.hold(f"{second}.drain.prepare")
    agent.wait_did("begun prepare drain", "begun prepare drain")
    agent.wait_stage(first, Stage.RECOVERING)
    assert {run.phase for run in agent.did("begun")} == {"prepare"}
    agent.release(f"{second}.drain.prepare")
    recovered(agent, first, second)
    assert [run.phase for run in agent.did("done")] == [
        "prepare",
        "prepare",
        "recover",
    ]
    assert place.approvals(second) == ["web_0"]


@pytest.mark.clause("8.7")
def test_agent_keeps_watching_after_an_event(place: Ground) -> None:
    agent = place.agent().wait_ready()
    for _ in range(3):
        event = place.event()
        place.wait_approved(event, "web_0")
        recovered(agent, event)
    assert len(agent.did("done")) == 6


@pytest.mark.clause("8.3")
def test_event_of_another_vm_is_only_reported(place: Ground) -> None:
    agent = place.agent().wait_ready()
    event = place.event("Redeploy", ["web_1"], notice="0s")
    agent.wait_stage(event, Stage.FINISHED)
    task = agent.task(event)
    assert task is not None
    assert (task.mine, task.consent) == (False, Consent.NONE)
    assert agent.did() == []
    assert place.posts() == []
