"""The runner: takes a scenario's steps in their order, each at its time.

The same code runs on the machine's clock and on a virtual one; it asks `Time`. A
step that is refused, or an expectation that is not met, fails the scenario and does
not end it: what follows may show more.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from forewarn.instants import DAY, SECOND, Micros
from forewarn.metadata.server import Address
from forewarn.problems import listed
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.operations import ENDED_STATES, CallState
from forewarn.sim.scenario import describe
from forewarn.sim.scenario.client_log import ClientLog, Witness
from forewarn.sim.scenario.describe import counted, telling
from forewarn.sim.scenario.doing import Hand
from forewarn.sim.scenario.expect import Facts, judge
from forewarn.sim.scenario.judging import (
    NO_CLIENT,
    ClientJudge,
    may_begin,
    waited_for,
)
from forewarn.sim.scenario.model import (
    OF_CLIENTS,
    Expect,
    Expectation,
    Expected,
    Scenario,
    Step,
)
from forewarn.sim.scenario.time import LOOK_SECONDS, Time
from forewarn.sim.scenario.verdicts import (
    Finding,
    Outcome,
    Verdict,
    length,
    skipped,
    untried,
)
from forewarn.sim.sim_server import SimServer
from forewarn.wording import operators


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a scenario went."""

    scenario: Scenario
    findings: tuple[Finding, ...]
    took: Micros
    expected: Expected = Expected.SCENARIO
    """How much was demanded of clients."""

    @property
    def passed(self) -> bool:
        """Tell whether every step was done, and everything was seen to be as expected.

        A scenario for which nothing is judged does not pass, and does not fail.
        """
        return self.expected is not Expected.NONE and not self.failures

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Return what was refused, not as expected, or could not be tried."""
        return tuple(finding for finding in self.findings if finding.failed)


COMES_TO_ITS_END = "the scenario comes to its end"
"""What is found of a scenario that was cut short."""


def cut_result(
    scenario: Scenario,
    why: str,
    *,
    expected: Expected = Expected.SCENARIO,
    before: Sequence[Finding] = (),
    took: Micros = 0,
) -> Result:
    """Return the result of a scenario that did not come to its end, which is an error.

    `before` is what was found until then.
    """
    finding = untried(why).about(COMES_TO_ITS_END, is_of_client=False)
    cut = replace(finding, at=took, took=took)
    return Result(
        scenario=scenario, findings=(*before, cut), took=took, expected=expected
    )


ROUNDING: Micros = SECOND
"""How much longer an operation may take than its time divided by speed: NotBefore is on
a whole second (2.7), however fast a simulation is."""


REST_MAX: Micros = 8 * DAY
"""How long what follows from the last step is waited for: a predicted failure has a
notice of a week, and what the guard holds is announced again for ever."""


class Runner:
    """Runs scenarios on one stage."""

    def __init__(
        self,
        stage: SimServer,
        time: Time,
        *,
        tell: Callable[[str], None] = lambda _line: None,
        expected: Expected = Expected.SCENARIO,
        since: Micros = 0,
        addresses: Callable[[], Mapping[str, Address]] | None = None,
    ) -> None:
        """Run on `stage`, which has the scenario's fleet and settings.

        Each step and finding is told to `tell`, in one line. `expected` is how much is
        demanded of clients; what they did before `since` does not count. `addresses`
        returns where VMs are served, if it is not the stage that listens for them.
        """
        self._stage = stage
        self._time = time
        self._witness = Witness(stage.journal)
        self._tell = tell
        self.expected = expected
        """How much is demanded of clients."""
        self._since = since
        self._addresses = addresses or stage.server.addresses
        self._runs: list[_Run] = []

    @property
    def findings(self) -> Sequence[Finding]:
        """Return what was found so far, of everything that this runner has begun."""
        return [finding for run in self._runs for finding in run.findings]

    def look(self) -> None:
        """Judge what can be decided of clients by now."""
        for run in self._runs:
            run.look()

    @property
    def undecided(self) -> Sequence[str]:
        """Return what of clients is open in everything that this runner has begun."""
        return [what for run in self._runs for what in run.undecided()]

    def waits_for(self) -> Sequence[str]:
        """Return what keeps everything that this runner has begun, in words.

        It is what clients have yet to do, and the operations that have not ended.
        """
        clients: list[str] = []
        for run in self._runs:
            needed = listed(waited_for(run.scenario)) or "any VM"
            nobody = f"a client that asks for the events of {needed}"
            clients += [nobody if w == NO_CLIENT else w for w in run.undecided()]
        engine = self._stage.engine
        made = [each for run in self._runs for each in run.hand.all_operations()]
        work = engine.read(
            lambda reader: describe.unfinished(reader, made, now=engine.now)
        )
        return [*clients, *work]

    def cut_short(self, scenarios: Sequence[Scenario], why: str) -> list[Result]:
        """Return the results of scenarios that did not come to their end.

        What was found so far stays, and that they were cut is an error.
        """
        runs = {run.scenario.name: run for run in self._runs}
        results: list[Result] = []
        for scenario in scenarios:
            run = runs.get(scenario.name)
            if run is not None and run.result is not None:
                # Of several at once, one may be over before the others.
                results.append(run.result)
                continue
            results.append(
                cut_result(
                    scenario,
                    why,
                    expected=self.expected,
                    before=() if run is None else run.findings,
                    took=0 if run is None else self._time.now() - run.start,
                )
            )
        return results

    @property
    def has_begun(self) -> bool:
        """Tell whether a scenario has begun."""
        return bool(self._runs)

    async def wait_for_clients(
        self, scenarios: Sequence[Scenario], *, seconds: float
    ) -> bool:
        """Wait until clients have asked who are to be told; tell whether they have.

        Before that nobody would be told of anything. It takes at most so many seconds
        of the machine's time, whatever the stage's clock does.
        """
        log = ClientLog(self._stage, since=self._since)
        try:
            async with asyncio.timeout(seconds):
                # Polls that repeat others ring no bell.
                while not all(may_begin(each, log) for each in scenarios):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            return False
        finally:
            log.close()
        return True

    def may_begin(self, scenarios: Sequence[Scenario]) -> bool:
        """Tell whether clients have asked who are to be told."""
        log = ClientLog(self._stage, since=self._since)
        log.close()
        return all(may_begin(each, log) for each in scenarios)

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
        log = ClientLog(self._stage, since=self._since)
        judge = ClientJudge(
            self._stage,
            scenario,
            expected=self.expected,
            log=log,
            addresses=dict(self._addresses()),
        )
        run = _Run(self._time, hand, scenario, self._tell, judge)
        self._runs.append(run)
        try:
            for step in scenario.steps:
                await run.wait_for(step)
                if isinstance(step.act, Expect):
                    await self._expect(run, step, step.act.expectation)
                else:
                    run.do(step)
            end = self._time.now() + self._platform_takes(
                hand, REST_MAX, operations=len(hand.all_operations())
            )
            while _goes_on(hand):
                if self._time.now() >= end:
                    self._tell("what goes on still is not waited for any longer")
                    break
                await run.pass_until(end)
            await run.conclude()
        finally:
            log.close()
        run.result = Result(
            scenario=scenario,
            findings=tuple(run.findings),
            took=self._time.now() - run.start,
            expected=self.expected,
        )
        return run.result

    async def _expect(self, run: "_Run", step: Step, wanted: Expectation) -> None:
        time, hand = self._time, run.hand
        of_clients = wanted.wanted in OF_CLIENTS
        within = wanted.within
        if within and not of_clients:
            made = hand.operations(wanted.event)
            within = self._platform_takes(hand, within, operations=max(len(made), 1))
        since = self._stage.engine.now
        if step is run.scenario.steps[0] and not (step.after or step.at):
            # The request with which the scenario began is one that it waits for.
            since = self._since
        begin = time.now()
        while True:
            verdict = self._judge(run, wanted, since, is_over=False)
            if verdict is not None or time.now() >= begin + within:
                break
            await run.pass_until(begin + within, closely=of_clients)
        verdict = verdict or self._judge(run, wanted, since, is_over=True)
        assert verdict is not None, wanted
        is_judged = self.expected is Expected.SCENARIO or (
            not of_clients and self.expected is not Expected.NONE
        )
        if not is_judged:
            verdict = skipped(f"not judged: {verdict.sentence}")
        run.found(
            verdict.about(telling(step), line=step.line, is_of_client=of_clients),
            took=time.now() - begin,
        )

    def _platform_takes(
        self, hand: Hand, duration: Micros, *, operations: int
    ) -> Micros:
        """Return how long it may take at this speed what a file gives a duration.

        Each operation is rounded. Floors of notices and impacts make nothing longer
        than it is without a speed.
        """
        sped_up = hand.scaled(duration)
        floors = self._stage.floors.lengthen() * operations
        return sped_up + min(floors, max(duration - sped_up, 0)) + ROUNDING * operations

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
                    start=self._since,
                    begin=run.began,
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
        self,
        time: Time,
        hand: Hand,
        scenario: Scenario,
        tell: Callable[[str], None],
        judge: ClientJudge,
    ) -> None:
        self.hand = hand
        self.start = time.now()
        self.began = hand.now
        self.findings: list[Finding] = []
        self.result: Result | None = None
        """None: it is not over."""
        self._time = time
        self.scenario = scenario
        self._tell = tell
        self._judge = judge

    async def wait_for(self, step: Step) -> None:
        """Wait until the step's time; it may have come long ago."""
        scaled = self.hand.scaled
        begin = self._time.now() if step.at is None else self.start
        target = begin + scaled(step.after if step.at is None else step.at)
        while self._time.now() < target:
            await self.pass_until(target)

    async def pass_until(self, target: Micros, *, closely: bool = False) -> None:
        """Let time pass as `Time` does, and see what clients have done meanwhile."""
        events = self.hand.named_events()
        closely = closely or self._judge.is_waited_for(events, now=self.hand.now)
        await self._time.pass_until(target, closely=closely)
        self.look()

    def look(self) -> None:
        """Judge what can be decided of clients by now."""
        for finding in self._judge.look(self.hand.named_events()):
            self.found(finding)

    def undecided(self) -> Sequence[str]:
        """Return what is demanded of clients and is open yet, in words."""
        return self._judge.undecided(self.hand.named_events())

    async def conclude(self) -> None:
        """Judge what is left of clients, after the time that they may take for it."""
        events = self.hand.named_events()
        while (until := self._judge.awaits(events)) > self.hand.now:
            await self.pass_until(
                self._time.now() + until - self.hand.now, closely=True
            )
        events = self.hand.named_events()
        if self._judge.nobody_asked(events):
            # It is one error, and nobody's failures.
            self.findings = [_unjudged(each) for each in self.findings]
        for finding in self._judge.conclude(events):
            self.found(finding)

    def do(self, step: Step) -> None:
        """Do a step; a refusal is a finding."""
        self._tell(telling(step))
        try:
            self.hand.do(step.act, name=step.name)
        except ForewarnError as error:
            if step.may_be_refused:
                self._tell(f"refused, as it may be: {operators.refusal(error)}")
                return
            sentence = f"{telling(step)} was refused: {operators.refusal(error)}"
            refused = untried(sentence)
            self.found(refused.about(telling(step), line=step.line, is_of_client=False))

    def found(self, finding: Finding, *, took: Micros = 0) -> None:
        """Note and tell what was found, now."""
        finding = replace(finding, at=self._time.now() - self.start, took=took)
        self.findings.append(finding)
        self._tell(_WORDS[finding.outcome] + _sentence_of(self.scenario, finding))


_WORDS: Mapping[Outcome, str] = {
    Outcome.PASSED: "as expected: ",
    Outcome.FAILED: "FAILED: ",
    Outcome.ERROR: "FAILED: ",
    Outcome.SKIPPED: "NOT JUDGED: ",
}


def _sentence_of(scenario: Scenario, finding: Finding) -> str:
    """Return the sentence of a finding, with its place if the scenario fails by it."""
    if not finding.failed or not finding.line:
        return finding.sentence
    return f"{finding.sentence} ({scenario.file}:{finding.line})"


def _unjudged(finding: Finding) -> Finding:
    """Return a finding of a client that was not there."""
    if not (finding.is_of_client and finding.failed):
        return finding
    sentence = f"not judged: {finding.sentence}"
    return replace(finding, outcome=Outcome.SKIPPED, sentence=sentence)


def _goes_on(hand: Hand) -> bool:
    """Tell whether anything that was made will go on by itself."""
    return any(
        operation.state not in ENDED_STATES
        and (operation.due_at or operation.call_state is CallState.ISSUED)
        for operation in hand.all_operations()
    )


def summary(result: Result) -> str:
    """Return the result in a sentence."""
    name, took = result.scenario.name, length(result.took)
    if result.failures:
        return f"{name}: {counted(len(result.failures), 'failure')}, in {took}"
    if result.expected is Expected.NONE:
        return f"{name}: NOT JUDGED, as nothing was expected of a client, in {took}"
    met = sum(each.passed for each in result.findings)
    left = sum(each.outcome is Outcome.SKIPPED for each in result.findings)
    told = f"{counted(met, 'expectation')} met" if met else "a client asked"
    return f"{name}: {told}{f', {left} not judged' if left else ''}, in {took}"
