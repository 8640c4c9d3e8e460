"""Demands of scenarios on clients, on a virtual clock: met, missed, not judged.

Each built-in scenario is played with a client that keeps running, with one that asks
once, and with no client. Only the first passes. The tests of each demand are
in `test_demands`.
"""

import asyncio
from collections.abc import Iterable
from http import HTTPStatus

import pytest

from forewarn.instants import SECOND, Micros
from forewarn.sim.scenario import builtin
from forewarn.sim.scenario.model import Expected, Outcome, Scenario
from forewarn.sim.scenario.run import Result, Runner, summary
from forewarn.sim.scenario.setup import setup_for, virtual_stage
from forewarn.sim.scenario.time import VirtualTime
from forewarn.sim.sim_server import SimServer
from forewarn.sim.virtual_client import VirtualClient
from forewarn.store import kinds
from forewarn.store.port import every
from tests.support.played import approve, run, scenario, sentences
from tests.support.worlds import taken_apart

POLLS_EVERY: Micros = 5 * SECOND


class Poller:
    """A client that polls in intervals, and approves events that name its VM."""

    def __init__(
        self, stage: SimServer, vm: str, *, approves_all: bool = False
    ) -> None:
        self._stage = stage
        self._vm = VirtualClient(stage, vm)
        self._approves_all = approves_all
        self._polls_at = stage.engine.now

    def next_at(self) -> Micros | None:
        return self._polls_at

    def act(self) -> None:
        now = self._stage.engine.now
        if now < self._polls_at:
            return
        self._polls_at = now + POLLS_EVERY
        answer = taken_apart(self._vm.get())
        for event in answer.events if answer.status == HTTPStatus.OK else []:
            is_mine = self._vm.name in event["Resources"]
            if event["EventStatus"] == "Scheduled" and (is_mine or self._approves_all):
                self._vm.approve(event["EventId"])


def all_vms(stage: SimServer) -> list[str]:
    vms = stage.engine.read(lambda reader: list(every(reader, kinds.ALL_VMS)))
    return [vm.name for vm in vms]


def play(
    played: Scenario,
    *,
    expected: Expected = Expected.SCENARIO,
    pollers: Iterable[str] | None = (),
    sleepers: Iterable[str] | None = (),
    approves_all: bool = False,
) -> Result:
    """Play a scenario with clients in these VMs; None: in all VMs."""

    async def playing() -> Result:
        stage = virtual_stage(setup_for([played]))
        vms = all_vms(stage)
        for vm in vms if sleepers is None else sleepers:
            VirtualClient(stage, vm).get()
        actors = [
            Poller(stage, vm, approves_all=approves_all)
            # Clients that the first event does not name act first.
            for vm in (reversed(vms) if pollers is None else pollers)
        ]
        for actor in actors:
            actor.act()
        time = VirtualTime(stage, actors=actors)
        result = await Runner(stage, time, expected=expected).run(played)
        await stage.end()
        return result

    return asyncio.run(playing())


def outcomes(result: Result) -> set[Outcome]:
    return {finding.outcome for finding in result.findings}


# Built-in scenarios


def shipped() -> list[object]:
    return [
        pytest.param(builtin_scenario, id=builtin_scenario.name)
        for builtin_scenario in builtin.scenarios()
    ]


@pytest.mark.parametrize("played", shipped())
def test_client_that_keeps_running_passes_each_scenario(played: Scenario) -> None:
    result = play(played, pollers=None)
    assert result.passed, sentences(result)
    findings = [
        finding
        for finding in result.findings
        if finding.what.endswith("for its events")
    ]
    assert {finding.outcome for finding in findings} == {Outcome.PASSED}


@pytest.mark.parametrize("played", shipped())
def test_client_that_polls_only_once_fails_each_scenario(
    played: Scenario,
) -> None:
    result = play(played, sleepers=None)
    assert Outcome.FAILED in outcomes(result), sentences(result)
    assert not result.passed


@pytest.mark.parametrize("played", shipped())
def test_scenario_without_client_requests_has_exactly_one_error(
    played: Scenario,
) -> None:
    for expected in (Expected.SCENARIO, Expected.ASKED, Expected.APPROVED):
        result = play(played, expected=expected)
        assert not result.passed
        [failure] = result.failures
        assert failure.outcome is Outcome.ERROR
        assert failure.sentence.startswith("no client asked for the events of ")
        assert failure.sentence.endswith("so none was tested")


@pytest.mark.parametrize("played", shipped())
def test_scenario_without_judged_expectations_is_skipped(
    played: Scenario,
) -> None:
    result = play(played, expected=Expected.NONE)
    assert outcomes(result) == {Outcome.SKIPPED}
    assert not result.passed
    assert not result.failures
    assert "NOT JUDGED" in summary(result)


@pytest.mark.parametrize("played", shipped())
def test_one_client_in_the_first_vm_is_enough(played: Scenario) -> None:
    """A test of one program reports no failures of absent clients."""
    first = next(client.vm for client in played.clients)
    result = play(played, pollers=[first])
    assert result.passed, sentences(result)


@pytest.mark.parametrize("played", shipped())
def test_approving_for_others_fails_scenarios_that_forbid_it(
    played: Scenario,
) -> None:
    result = play(played, pollers=None, approves_all=True)
    heeds = any(client.ignores_others for client in played.clients)
    assert result.passed is not heeds, sentences(result)


# Levels of demands


def test_expectation_asked_demands_nothing_else() -> None:
    played = builtin.find("live-migration")
    result = play(played, expected=Expected.ASKED, sleepers=["web_0"])
    assert result.passed
    assert [finding.what for finding in result.findings] == [
        "client web_0 asks for its events"
    ]


def test_expectation_approved_does_not_require_a_return() -> None:
    played = builtin.find("live-migration")
    actions = {3: approve("web_0")}
    [result] = run(played, actions=actions, expected=Expected.APPROVED)
    assert result.passed
    [late] = run(played, expected=Expected.APPROVED)
    assert [failure.outcome for failure in late.failures] == [Outcome.FAILED]
    [strict] = run(played, actions=actions)
    assert [failure.sentence.partition(" (")[0] for failure in strict.failures] == [
        "web_0 did not ask again after e1"
    ]


def test_event_that_does_not_wait_needs_no_approval() -> None:
    result = play(
        builtin.find("freeze-first-started"),
        expected=Expected.APPROVED,
        sleepers=["web_0"],
    )
    assert result.passed
    assert result.findings[-1].sentence == (
        "no event that names web_0 waited for an approval"
    )


STEPS = """
[[step]]
maintain = "h0"
impact = "reboot"
[[step]]
expect = { approved_by = "web_0", within = "1m" }
[[step]]
expect = { status = "Scheduled", within = "1s" }
"""


@pytest.mark.parametrize(
    ("expected", "wanted"),
    [
        (Expected.SCENARIO, [Outcome.FAILED, Outcome.PASSED]),
        (Expected.ASKED, [Outcome.SKIPPED, Outcome.PASSED]),
        (Expected.APPROVED, [Outcome.SKIPPED, Outcome.PASSED, Outcome.FAILED]),
        (Expected.NONE, [Outcome.SKIPPED] * 3),
    ],
)
def test_steps_are_judged_as_the_expect_option_requires(
    expected: Expected, wanted: list[Outcome]
) -> None:
    """Expectations on the platform are judged, except with `none`."""
    [result] = run(scenario(STEPS), expected=expected)
    assert [finding.outcome for finding in result.findings] == wanted


def test_refused_step_fails_under_every_expectation() -> None:
    for expected in Expected:
        [result] = run(scenario('[[step]]\nevict = "web_0"\n'), expected=expected)
        assert [failure.outcome for failure in result.failures] == [Outcome.ERROR]


def test_demands_are_skipped_if_no_client_asked() -> None:
    [result] = run(scenario(STEPS), asked=())
    assert [finding.outcome for finding in result.findings] == [
        Outcome.SKIPPED,
        Outcome.PASSED,
        Outcome.ERROR,
    ]
