"""Scenarios run on the virtual clock, where web_0 has asked once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from forewarn.instants import SECOND, Micros
from forewarn.metadata.http import Request
from forewarn.sim.deviations import RULES, Deviation
from forewarn.sim.journal import JournalEntry
from forewarn.sim.scenario.file import read_scenario
from forewarn.sim.scenario.model import Expected, Scenario
from forewarn.sim.scenario.run import Result, Runner
from forewarn.sim.scenario.setup import setup_for, virtual_stage
from forewarn.sim.scenario.time import VirtualTime
from forewarn.sim.sim_server import SimServer
from forewarn.sim.virtual_client import VirtualClient
from tests.support.worlds import live_events

ClientAction: TypeAlias = Callable[[SimServer], object]
"""One action of a client, such as a poll or an approval."""


def scenario(text: str, *, name: str = "mine") -> Scenario:
    """Return the scenario that the TOML string describes."""
    return read_scenario(text, file=f"{name}.toml")


class ScriptedClient:
    """A client with a list of actions, each at a number of seconds after the start."""

    def __init__(self, stage: SimServer, actions: dict[int, ClientAction]) -> None:
        self._stage = stage
        self._began = stage.engine.now
        self._actions = sorted(actions.items())

    def next_at(self) -> Micros | None:
        return self._began + self._actions[0][0] * SECOND if self._actions else None

    def act(self) -> None:
        while (at := self.next_at()) is not None and at <= self._stage.engine.now:
            self._actions.pop(0)[1](self._stage)


def approve(vm: str, place: int = 0) -> ClientAction:
    def act(stage: SimServer) -> object:
        event_id = live_events(stage.engine)[place].event_id
        return VirtualClient(stage, vm).approve(event_id)

    return act


def run(
    *scenarios: Scenario,
    actions: dict[int, ClientAction] | None = None,
    speed: float = 1.0,
    log: list[str] | None = None,
    expected: Expected = Expected.SCENARIO,
    asked: Sequence[str] = ("web_0",),
    before: Sequence[ClientAction] = (),
) -> list[Result]:
    """Run scenarios together on a virtual clock, where some VMs have asked once.

    The actions in `before` happen a second before the first step.
    """

    async def play() -> list[Result]:
        stage = virtual_stage(setup_for(scenarios, speed=speed))
        for vm in asked:
            VirtualClient(stage, vm).get()
        for action in before:
            action(stage)
        stage.turn(SECOND if before else 0)
        time = VirtualTime(stage, actors=[ScriptedClient(stage, actions or {})])
        tell = (log if log is not None else []).append
        runner = Runner(stage, time, tell=tell, expected=expected)
        results = await runner.run_together(scenarios)
        await stage.end()
        return results

    return asyncio.run(play())


def sentences(result: Result) -> list[tuple[bool, str]]:
    return [(finding.passed, finding.sentence) for finding in result.findings]


def one(
    expectation: str,
    *,
    step: str = 'maintain = "h0"\nimpact = "freeze"',
    actions: dict[int, ClientAction] | None = None,
    fleet: str = "",
    more: str = "",
    asked: Sequence[str] = ("web_0",),
) -> tuple[bool, str]:
    """Return the verdict on one expectation after one step."""
    text = (
        f"{fleet}\n[[step]]\n{step}\n{more}\n[[step]]\nexpect = {{ {expectation} }}\n"
    )
    [result] = run(scenario(text), actions=actions, asked=asked)
    return sentences(result)[0]


def asks(
    *seconds: int, fault: str = "", deviations: Sequence[str] = ()
) -> dict[int, ClientAction]:
    """Return actions that add polls of web_0 to the journal at these seconds."""

    def note(stage: SimServer) -> None:
        path = "/metadata/scheduledevents"
        stage.journal.add(
            JournalEntry(
                number=stage.journal.last + 1,
                at=stage.engine.now,
                vm="web_0",
                address="127.0.0.1",
                request=Request(method="GET", path=path),
                status=200,
                genuine=200,
                fault=fault,
                deviations=tuple(Deviation(rule=RULES[name]) for name in deviations),
                approved=(),
            )
        )

    return dict.fromkeys(seconds, note)
