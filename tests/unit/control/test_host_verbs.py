"""The requests that are offered for a host of a campaign are those that are accepted."""

from typing import Any

import pytest

from forewarn.control.requests import campaigns
from forewarn.control.requests.verbs import DECISIONS
from forewarn.control.transactions.work import Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.protocol.errors import BadRequestError, RefusedError
from forewarn.protocol.operations import Action
from forewarn.reporting.campaign_host import campaign_host
from forewarn.reporting.expected import expected_of
from forewarn.verbs.model import VerbRequest
from tests.support.campaigns import campaign, start, steer
from tests.support.worlds import World
from tests.unit.control.test_campaign_steps import of
from tests.unit.control.test_campaign_tree import TWO_AT_ONCE, world_of

STEPS = """
[campaign.steps]
enter = { step = "enter" }
work = { step = "flash", version = "2.19" }
[[campaign.stage]]
hosts = "100%"
"""


def until_it_works(world: World, name: str) -> None:
    """Let time pass until a host is in work."""
    for _ in range(1_000):
        if host(world, name)["state"] == "impacting":
            return
        world.advance("10s")
    raise AssertionError("it has not begun")


class UndoneError(Exception):
    """Rolls a decision back."""


def host(world: World, name: str) -> dict[str, Any]:
    def read(reader: Any) -> dict[str, Any]:
        expected = expected_of(reader, campaign(world), now=world.now)
        return campaign_host(expected, name)

    return world.read(read)


def refusal(world: World, verb: str, given: VerbRequest) -> str | None:
    """Return why a decision refuses a request, and change nothing; None: it does not."""

    def decide(work: Work) -> None:
        DECISIONS[verb](work, given)
        raise UndoneError

    try:
        world.order(decide, actor="bob", reason="a reason")
    except UndoneError:
        return None
    except (RefusedError, BadRequestError) as error:
        return error.message
    raise AssertionError("it was committed")


def requests(name: str, detail: dict[str, Any]) -> dict[str, VerbRequest]:
    of_campaign = VerbRequest(targets=("bios",), values={"hosts": (name,)})
    vms = tuple(vm["vm"] for vm in detail["vm_list"])
    return {
        "campaign-retry": of_campaign,
        "campaign-skip": of_campaign,
        "expedite": VerbRequest(targets=vms),
        "cancel": VerbRequest(targets=(detail["operation"],)),
    }


def test_verbs_of_each_host_are_accepted_or_refused_as_it_says() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s1-1", times=3))
    service = world_of(4, driver=driver)
    start(service, TWO_AT_ONCE)
    accepted: set[tuple[str, str, bool]] = set()
    for _ in range(40):
        for name in ("h0000", "h0001", "h0002", "h0003"):
            detail = host(service, name)
            bodies = requests(name, detail)
            for verb in detail["verbs"]:
                why = refusal(service, verb["verb"], bodies[verb["verb"]])
                assert (verb["error"] is None) == (why is None), (name, verb, why)
                if verb["verb"] != "expedite":
                    # A VM or its host: otherwise, the texts are the same.
                    assert verb["error"] == why
                accepted.add((detail["state"], verb["verb"], why is None))
        service.advance("5m")
    states = {state for state, _, _ in accepted}
    assert {"planned", "announced", "failed", "done"} <= states
    assert ("failed", "campaign-retry", True) in accepted
    assert ("announced", "campaign-retry", False) in accepted
    assert ("announced", "cancel", True) in accepted
    assert ("done", "campaign-skip", False) in accepted


def test_nothing_of_an_ended_campaign_is_offered() -> None:
    service = world_of(4)
    start(service, TWO_AT_ONCE)
    steer(service, lambda work: campaigns.abort(work, "bios"))
    detail = {verb["verb"]: verb for verb in host(service, "h0003")["verbs"]}
    for verb in ("campaign-retry", "campaign-skip"):
        assert detail[verb]["error"] == "campaign bios is Aborted"
        assert detail[verb]["hint"].startswith("Run `forewarn campaign report bios`")


def test_drain_is_a_step_between_enter_and_work() -> None:
    service = of(3)
    start(service, STEPS, impact="live-migrate")
    until_it_works(service, "h0000")
    courses: list[list[tuple[str, bool, str | None]]] = []
    while host(service, "h0000")["state"] != "done":
        steps = host(service, "h0000")["steps"]
        course = [(step["kind"], step["current"], step["outcome"]) for step in steps]
        if course not in courses:
            courses.append(course)
        service.advance("10s")
    assert [("enter", False, "done"), ("drain", True, None), ("work", False, None)] in (
        courses
    )
    assert [
        ("enter", False, "done"),
        ("drain", False, "done"),
        ("work", True, None),
    ] in (courses)
    output = host(service, "h0000")["output"]
    assert [entry["text"] for entry in output if entry["what"] == "vm moved"]
    assert all(entry["text"] for entry in output)


@pytest.mark.parametrize("verb", ["campaign-retry", "campaign-skip"])
def test_refusal_of_a_host_that_has_started_says_how_to_follow_it(verb: str) -> None:
    service = of(3)
    start(service, STEPS, impact="live-migrate")
    until_it_works(service, "h0000")
    detail = {row["verb"]: row for row in host(service, "h0000")["verbs"]}
    assert detail[verb]["error"]
    assert detail[verb]["hint"].startswith("Run `forewarn ")
