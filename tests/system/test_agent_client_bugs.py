"""Known bugs of public clients, tested with a complete agent over real sockets.

The same rows as in `tests/unit/agent/core/test_client_bugs.py`, where nothing is real;
faults of the endpoint that end other clients are in `test_agent_faults`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.core.model import Consent, Stage
from forewarn.sim.loop import LoopThread
from tests.support.agents import Ground, ground
from tests.support.processes import eventually
from tests.support.residents import TOML, Resident, hasten, resident

pytestmark = [pytest.mark.system, pytest.mark.slow]

NAMES = ("web_1", "web_10", "plain", "pool_18")

FLEET = """
[[scope]]
name = "web"
kind = "availability-set"
[[host]]
name = "h0"
""" + "".join(
    f'[[vm]]\nname = "{name}"\nhost = "h0"\nscope = "web"\n' for name in NAMES
)

NO_HANDLERS = """
[[rule]]
type = ["Freeze"]
approve = "at once"

[[rule]]
approve = "never"
"""

FAILING = """
[[handler]]
name = "drain"
kind = "exec"
prepare = ["/bin/sh", "-c", "echo no; exit 1"]
recover = ["/bin/sh", "-c", "echo recover >>did"]
directory = "DIRECTORY"
"""


@pytest.fixture
def place(
    loop: LoopThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ground]:
    hasten(monkeypatch)
    with ground(loop, tmp_path, fleet=FLEET, speed=6_000) as new_ground:
        yield new_ground


@pytest.fixture
def agent(place: Ground) -> Iterator[Resident]:
    with resident(place.directory / "a", place.world.url("web_1")) as agent:
        yield agent.wait_ready()


def polls(place: Ground, vm: str, count: int) -> None:
    """Return when a VM has polled so often from now on."""

    def number() -> int:
        return place.world.call(
            lambda sim: sum(
                exchange.vm == vm and exchange.method == "GET"
                for exchange in sim.stage.journal.find(vm=vm)
            )
        )

    before = number()
    eventually(number, lambda now: now >= before + count)


def event(place: Ground, *vms: str, kind: str = "Reboot", notice: str = "1h") -> str:
    return place.event(kind, vms or ("web_1",), notice=notice)


@pytest.mark.clause("8.4")
def test_failed_drain_prevents_the_approval(place: Ground) -> None:
    with resident(place.directory / "a", place.world.url("web_1"), FAILING) as agent:
        event_id = event(place)
        agent.wait_stage(event_id, Stage.WITHHELD)
        polls(place, "web_1", 10)
        assert place.posts() == []


def test_rule_without_handlers_does_not_crash_the_agent(place: Ground) -> None:
    with resident(
        place.directory / "a", place.world.url("web_1"), NO_HANDLERS
    ) as agent:
        reboot = event(place)
        freeze = event(place, kind="Freeze")
        agent.wait_stage(freeze, Stage.FINISHED)
        assert place.approvals(freeze) == ["web_1"]
        assert place.posts(reboot) == []


def test_agent_start_does_not_uncordon_a_node_it_never_cordoned(
    place: Ground, agent: Resident
) -> None:
    polls(place, "web_1", 5)
    assert agent.did() == []


def test_event_is_approved_once_and_not_with_each_poll(
    place: Ground, agent: Resident
) -> None:
    """The endpoint says yes, and the event stays Scheduled for long."""
    place.world.sim("approvals", {"do": "withhold", "vms": ["web_1"]})
    event_id = event(place)
    agent.wait_task(event_id, lambda task: task.consent is Consent.GIVEN)
    polls(place, "web_1", 20)
    assert len(place.posts(event_id)) == 1
    assert agent.did() == [f"prepare {event_id}"]


def test_started_event_is_not_drained_again(place: Ground, agent: Resident) -> None:
    # A started event continues only when the clock does.
    place.world.sim("clock", {"do": "pause"})
    event_id = event(place)
    agent.wait_task(event_id, lambda task: task.started)
    polls(place, "web_1", 10)
    assert agent.did().count(f"prepare {event_id}") == 1


def test_two_events_are_approved_separately(place: Ground, agent: Resident) -> None:
    reboot, freeze = event(place), event(place, kind="Freeze")
    for event_id in (reboot, freeze):
        agent.wait_stage(event_id, Stage.FINISHED)
        assert place.approvals(event_id) == ["web_1"]
    assert all(len(post["approved"]) == 1 for post in place.posts())


def test_freeze_is_not_approved_with_a_reboot(place: Ground) -> None:
    rules = TOML + '\n[[rule]]\nname = "other"\napprove = "never"\n'
    text = rules.replace(
        'handlers = ["note"]', 'type = ["Reboot"]\nhandlers = ["note"]'
    )
    with resident(place.directory / "a", place.world.url("web_1"), text) as agent:
        freeze = event(place, kind="Freeze")
        reboot = event(place)
        agent.wait_stage(reboot, Stage.FINISHED)
        assert place.approvals(reboot) == ["web_1"]
        assert place.posts(freeze) == []


@pytest.mark.parametrize("fault", ["text", "html", "empty"])
def test_approval_response_that_is_not_json_is_tolerated(
    place: Ground, agent: Resident, fault: str
) -> None:
    place.faults(f"{fault} post taken")
    event_id = event(place)
    agent.wait_stage(event_id, Stage.FINISHED)
    # An HTML page is not a valid response, so it is sent again until it is seen to have begun.
    assert len(place.posts(event_id)) == 1 or fault == "html"


def test_a_dry_run_sends_no_approval(place: Ground) -> None:
    text = "dry_run = true\n" + TOML
    with resident(place.directory / "a", place.world.url("web_1"), text) as agent:
        event_id = event(place)
        agent.wait_task(event_id, lambda task: task.consent is Consent.GIVEN)
        polls(place, "web_1", 5)
        assert place.posts() == []
        assert agent.did() == []


def test_event_without_handlers_is_approved_automatically(place: Ground) -> None:
    with resident(place.directory / "a", place.world.url("web_1"), NO_HANDLERS):
        freeze = event(place, kind="Freeze")
        place.wait_approved(freeze, "web_1")


@pytest.mark.long
@pytest.mark.clause("8.7")
def test_agent_keeps_watching_after_the_first_event(
    place: Ground, agent: Resident
) -> None:
    for _ in range(4):
        event_id = event(place)
        agent.wait_stage(event_id, Stage.FINISHED)
    assert len(agent.did()) == 8


@pytest.mark.clause("8.3")
@pytest.mark.parametrize("kind", ["Preempt", "Reboot"])
def test_event_of_another_vm_is_ignored(
    place: Ground, agent: Resident, kind: str
) -> None:
    """Nor of one whose name contains its own."""
    event_id = event(place, "web_10", kind=kind, notice="1s")
    agent.wait_stage(event_id, Stage.FINISHED)
    assert agent.did() == []
    assert place.posts() == []


@pytest.mark.clause("8.3")
def test_vm_name_that_is_a_prefix_does_not_match(place: Ground) -> None:
    with resident(place.directory / "a", place.world.url("web_10")) as agent:
        event_id = event(place, "web_1", notice="1s")
        agent.wait_stage(event_id, Stage.FINISHED)
        assert agent.did() == []


@pytest.mark.clause("8.3")
def test_computer_name_of_a_scale_set_is_base_36(place: Ground) -> None:
    text = 'name = "pool00000i"\nscale_set_names = true\n' + TOML
    with resident(place.directory / "a", place.world.url("pool_18"), text) as agent:
        event_id = event(place, "pool_18")
        agent.wait_stage(event_id, Stage.FINISHED)
        assert place.approvals(event_id) == ["pool_18"]


def test_vm_name_without_a_number_is_accepted(place: Ground) -> None:
    with resident(place.directory / "a", place.world.url("plain")) as agent:
        event_id = event(place, "plain")
        agent.wait_stage(event_id, Stage.FINISHED)
        assert place.approvals(event_id) == ["plain"]


def test_all_recoveries_run_if_several_events_end_at_once(place: Ground) -> None:
    note = 'echo "$FOREWARN_PHASE $FOREWARN_HANDLER" >>did'
    handlers = "".join(
        f'[[handler]]\nname = "h{number}"\nkind = "exec"\ndirectory = "DIRECTORY"\n'
        f'prepare = ["/bin/sh", "-c", \'{note}\']\n'
        f'recover = ["/bin/sh", "-c", \'{note}\']\n'
        f'[[rule]]\ndescription = "d{number}"\nhandlers = ["h{number}"]\n'
        'approve = "never"\n'
        for number in range(4)
    )
    with resident(place.directory / "a", place.world.url("web_1"), handlers) as agent:
        events = [
            place.event("Reboot", ["web_1"], description=f"d{number}")
            for number in range(4)
        ]
        for event_id in events:
            agent.wait_stage(event_id, Stage.PREPARED)
        for event_id in events:
            place.move(event_id, "cancelled")
        for event_id in events:
            agent.wait_stage(event_id, Stage.FINISHED)
        assert sorted(agent.did()) == sorted(
            f"{phase} h{number}"
            for phase in ("prepare", "recover")
            for number in range(4)
        )


@pytest.mark.clause("8.6")
def test_agent_that_is_not_the_leader_does_not_approve(place: Ground) -> None:
    text = TOML + 'approver = "leader"\ntakeover = "1h"\n'
    with resident(place.directory / "a", place.world.url("web_10"), text) as agent:
        event_id = event(place, "web_1", "web_10")
        agent.wait_stage(event_id, Stage.PREPARED)
        polls(place, "web_10", 5)
        assert place.posts() == []


@pytest.mark.clause("8.6")
def test_two_vms_of_one_event_do_not_wait_for_each_other(place: Ground) -> None:
    text = TOML + 'approver = "leader"\ntakeover = "1h"\n'
    with (
        resident(place.directory / "a", place.world.url("web_1"), text) as first,
        resident(place.directory / "b", place.world.url("web_10"), text) as second,
    ):
        first.wait_ready()
        second.wait_ready()
        event_id = event(place, "web_1", "web_10")
        for agent in (first, second):
            agent.wait_stage(event_id, Stage.FINISHED)
        assert place.approvals(event_id) == ["web_1"]
