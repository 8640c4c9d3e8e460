"""Scenarios run on the virtual clock, where web_0 has asked once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from forewarn.instants import SECOND, Micros
from forewarn.metadata.http import Request
from forewarn.sim.deviations import RULES, Deviation
from forewarn.sim.journal import Seen
from forewarn.sim.scenario.file import read_scenario
from forewarn.sim.scenario.model import Expected, Scenario
from forewarn.sim.scenario.run import Result, Runner
from forewarn.sim.scenario.setup import setup_for, virtual_stage
from forewarn.sim.scenario.time import VirtualTime
from forewarn.sim.sim_server import SimServer
from forewarn.sim.virtual_client import VirtualClient
from tests.support.worlds import live_events

Deed: TypeAlias = Callable[[SimServer], object]


def scenario(text: str, *, name: str = "mine") -> Scenario:
    """Return the scenario in a text."""
    return read_scenario(text, file=f"{name}.toml")


class Doer:
    """A client that does one thing after another, each at its second."""

    def __init__(self, stage: SimServer, deeds: dict[int, Deed]) -> None:
        self._stage = stage
        self._began = stage.engine.now
        self._deeds = sorted(deeds.items())

    def next_at(self) -> Micros | None:
        return self._began + self._deeds[0][0] * SECOND if self._deeds else None

    def act(self) -> None:
        while (at := self.next_at()) is not None and at <= self._stage.engine.now:
            self._deeds.pop(0)[1](self._stage)


def approve(vm: str, place: int = 0) -> Deed:
    def act(stage: SimServer) -> object:
        event_id = live_events(stage.engine)[place].event_id
        return VirtualClient(stage, vm).approve(event_id)

    return act


def run(
    *scenarios: Scenario,
    deeds: dict[int, Deed] | None = None,
    speed: float = 1.0,
    told: list[str] | None = None,
    expected: Expected = Expected.SCENARIO,
    asked: Sequence[str] = ("web_0",),
    before: Sequence[Deed] = (),
) -> list[Result]:
    """Run scenarios together on a virtual clock, where some VMs have asked once.

    The actions in `before` happen a second before the first step.
    """

    async def play() -> list[Result]:
        stage = virtual_stage(setup_for(scenarios, speed=speed))
        for vm in asked:
            VirtualClient(stage, vm).get()
        for deed in before:
            deed(stage)
        stage.turn(SECOND if before else 0)
        time = VirtualTime(stage, actors=[Doer(stage, deeds or {})])
        tell = (told if told is not None else []).append
        runner = Runner(stage, time, tell=tell, expected=expected)
        results = await runner.run_together(scenarios)
        await stage.end()
        return results

    return asyncio.run(play())


def sentences(result: Result) -> list[tuple[bool, str]]:
    return [(each.passed, each.sentence) for each in result.findings]


def one(
    expectation: str,
    *,
    step: str = 'maintain = "h0"\nimpact = "freeze"',
    deeds: dict[int, Deed] | None = None,
    fleet: str = "",
    more: str = "",
    asked: Sequence[str] = ("web_0",),
) -> tuple[bool, str]:
    """Return the verdict on one expectation after one step."""
    text = (
        f"{fleet}\n[[step]]\n{step}\n{more}\n[[step]]\nexpect = {{ {expectation} }}\n"
    )
    [result] = run(scenario(text), deeds=deeds, asked=asked)
    return sentences(result)[0]


def asks(
    *seconds: int, fault: str = "", deviations: Sequence[str] = ()
) -> dict[int, Deed]:
    """Return actions that add polls of web_0 to the journal at these seconds."""

    def note(stage: SimServer) -> None:
        path = "/metadata/scheduledevents"
        stage.journal.add(
            Seen(
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
