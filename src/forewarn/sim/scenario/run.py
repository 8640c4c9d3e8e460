"""The runner: takes a scenario's steps in their order, each at its time.

The same code runs on the machine's clock and on a virtual one; it asks `Time`. A
step that is refused, or an expectation that is not met, fails the scenario and does
not end it: what follows may show more.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from forewarn.instants import DAY, SECOND, Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.operations import ENDED_STATES, CallState
from forewarn.sim.scenario.doing import Hand
from forewarn.sim.scenario.expect import Facts, Verdict, judge, length
from forewarn.sim.scenario.model import OF_CLIENTS, Expect, Expectation, Scenario, Step
from forewarn.sim.scenario.telling import counted, telling
from forewarn.sim.scenario.time import Time
from forewarn.sim.scenario.witness import Witness
from forewarn.sim.stage import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of an expectation, or a step that was refused."""

    line: int
    """Of the step, in the scenario's file."""
    what: str
    """The step in words."""
    passed: bool
    sentence: str
    is_refusal: bool = False
    """The step itself could not be done."""
    at: Micros = 0
    """From the start of the scenario."""
    took: Micros = 0
    """How long it was waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a scenario went."""

    scenario: Scenario
    findings: tuple[Finding, ...]
    took: Micros

    @property
    def passed(self) -> bool:
        """Tell whether every step was done, and everything was as expected."""
        return all(finding.passed for finding in self.findings)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Return what was refused or not as expected."""
        return tuple(finding for finding in self.findings if not finding.passed)


ROUNDING: Micros = SECOND
"""What the platform may take longer than its time divided by speed: NotBefore is on a
whole second (2.7), however fast a simulation is."""


REST_MAX: Micros = 8 * DAY
"""How long what follows from the last step is waited for: a predicted failure has a
notice of a week, and what the guard holds is announced again for ever."""


def _nobody(_line: str) -> None:
    """Tell it to nobody."""


class Runner:
    """Runs scenarios on one stage."""

    def __init__(
        self, stage: Stage, time: Time, *, tell: Callable[[str], None] = _nobody
    ) -> None:
        """Run on `stage`, which has the scenario's fleet and settings.

        Each step and finding is told to `tell`, in one line.
        """
        self._stage = stage
        self._time = time
        self._witness = Witness(stage.journal)
        self._tell = tell
        self.findings: list[Finding] = []
        """What was found so far, of everything that this runner has begun."""

    async def run(self, scenario: Scenario) -> Result:
        """Run a scenario to its end: the last step, and all that follows from it.

        What only an operator can end, such as a failure that nobody restores, is
        not waited for.
        """
        with self._time.player():
            return await self._play(scenario)

    async def run_together(self, scenarios: Sequence[Scenario]) -> list[Result]:
        """Run several at the same time; return their results in the same order."""

        async def play(scenario: Scenario, player: ExitStack) -> Result:
            with player:
                return await self._play(scenario)

        # Time waits for all of them before the first of them begins.
        players = [ExitStack() for _ in scenarios]
        for player in players:
            player.enter_context(self._time.player())
        return await asyncio.gather(*map(play, scenarios, players))

    async def _play(self, scenario: Scenario) -> Result:
        hand = Hand(self._stage, reason=scenario.name)
        run = _Run(self._time, hand, scenario, self._tell)
        run.on_finding = self.findings.append
        for step in scenario.steps:
            await run.wait_for(step)
            if isinstance(step.act, Expect):
                await self._expect(run, step, step.act.expectation)
            else:
                run.do(step)
        end = self._time.now() + hand.scaled(REST_MAX)
        while _goes_on(hand):
            if self._time.now() >= end:
                self._tell("what goes on still is not waited for any longer")
                break
            await self._time.pass_until(end)
        return Result(
            scenario=scenario,
            findings=tuple(run.findings),
            took=self._time.now() - run.start,
        )

    async def _expect(self, run: "_Run", step: Step, wanted: Expectation) -> None:
        time, hand = self._time, run.hand
        within = wanted.within
        of_clients = wanted.wanted in OF_CLIENTS
        if not of_clients:
            within = hand.scaled(within) + (ROUNDING if within else 0)
        since = self._stage.engine.now
        begin = time.now()
        while True:
            verdict = self._judge(run, wanted, since, is_over=False)
            if verdict is not None or time.now() >= begin + within:
                break
            await time.pass_until(begin + within, closely=of_clients)
        verdict = verdict or self._judge(run, wanted, since, is_over=True)
        assert verdict is not None, wanted
        run.found(
            step,
            sentence=verdict.sentence,
            passed=verdict.passed,
            took=time.now() - begin,
        )

    def _judge(
        self, run: "_Run", wanted: Expectation, since: Micros, *, is_over: bool
    ) -> Verdict | None:
        events = run.hand.events(wanted.event) if wanted.event else []
        engine = self._stage.engine
        return engine.read(
            lambda reader: judge(
                wanted,
                Facts(
                    now=engine.now,
                    since=since,
                    start=run.began,
                    events=events,
                    reader=reader,
                    witness=self._witness,
                    is_over=is_over,
                ),
            )
        )


class _Run:
    """One run of one scenario."""

    def __init__(
        self, time: Time, hand: Hand, scenario: Scenario, tell: Callable[[str], None]
    ) -> None:
        self.hand = hand
        self.start = time.now()
        self.began = hand.now
        self.findings: list[Finding] = []
        self.on_finding: Callable[[Finding], None] = lambda _finding: None
        self._time = time
        self._scenario = scenario
        self._tell = tell

    async def wait_for(self, step: Step) -> None:
        """Wait until the step's time; it may have come long ago."""
        scaled = self.hand.scaled
        begin = self._time.now() if step.at is None else self.start
        target = begin + scaled(step.after if step.at is None else step.at)
        while self._time.now() < target:
            await self._time.pass_until(target)

    def do(self, step: Step) -> None:
        """Do a step; a refusal is a finding."""
        self._tell(telling(step))
        try:
            self.hand.do(step.act, name=step.name)
        except ForewarnError as error:
            if step.may_be_refused:
                self._tell(f"refused, as it may be: {error.message}")
                return
            self.found(
                step,
                sentence=f"{telling(step)} was refused: {error.message}",
                passed=False,
                is_refusal=True,
            )

    def found(
        self,
        step: Step,
        *,
        sentence: str,
        passed: bool,
        took: Micros = 0,
        is_refusal: bool = False,
    ) -> None:
        """Note and tell what was found."""
        finding = Finding(
            line=step.line,
            what=telling(step),
            passed=passed,
            sentence=sentence,
            is_refusal=is_refusal,
            at=self._time.now() - self.start,
            took=took,
        )
        self.findings.append(finding)
        self.on_finding(finding)
        where = f" ({self._scenario.file}:{step.line})"
        self._tell(
            f"as expected: {sentence}" if passed else f"FAILED: {sentence}{where}"
        )


def _goes_on(hand: Hand) -> bool:
    """Tell whether anything that was made will go on by itself."""
    return any(
        operation.state not in ENDED_STATES
        and (operation.due_at or operation.call_state is CallState.ISSUED)
        for operation in hand.all_operations()
    )


def summary(result: Result) -> str:
    """Return the result in a sentence."""
    expected = [each for each in result.findings if not each.is_refusal]
    took = length(result.took)
    if not result.failures:
        met = f"{counted(len(expected), 'expectation')} met"
        told = met if expected else "done"
        return f"{result.scenario.name}: {told}, in {took}"
    return (
        f"{result.scenario.name}: {counted(len(result.failures), 'failure')}, in {took}"
    )
