"""The runner of scenarios: it runs the steps in order, each at its time.

The same code runs on the machine's clock and on a virtual one, with `Time`. A refused step
or an unmet expectation fails the scenario but does not end it, because later steps may
show more.
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
from forewarn.sim.scenario.doing import StepExecutor
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
    Finding,
    Outcome,
    Scenario,
    Step,
    Verdict,
    length,
    skipped,
    untried,
)
from forewarn.sim.scenario.time import LOOK_SECONDS, Time
from forewarn.sim.sim_server import SimServer
from forewarn.wording import operators


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a scenario."""

    scenario: Scenario
    findings: tuple[Finding, ...]
    took: Micros
    expected: Expected = Expected.SCENARIO
    """The demands on clients."""

    @property
    def passed(self) -> bool:
        """Return whether every step was done and every expectation was met.

        A scenario without a judgement neither passes nor fails.
        """
        return self.expected is not Expected.NONE and not self.failures

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Return the findings that fail the scenario."""
        return tuple(finding for finding in self.findings if finding.failed)


COMES_TO_ITS_END = "the scenario comes to its end"
"""The finding about an interrupted scenario."""


def cut_result(
    scenario: Scenario,
    why: str,
    *,
    expected: Expected = Expected.SCENARIO,
    before: Sequence[Finding] = (),
    took: Micros = 0,
) -> Result:
    """Return the result of an interrupted scenario, which is an error.

    `before` has the earlier findings.
    """
    finding = untried(why).about(COMES_TO_ITS_END, is_of_client=False)
    cut = replace(finding, at=took, took=took)
    return Result(
        scenario=scenario, findings=(*before, cut), took=took, expected=expected
    )


ROUNDING: Micros = SECOND
"""Extra time of an operation after division by the speed: NotBefore is on a full second
(2.7) at any speed."""


REST_MAX: Micros = 8 * DAY
"""Maximum wait for operations after the last step. A predicted failure has a notice of a
week, and an operation that the guard holds is announced again without end."""


class Runner:
    """A runner of scenarios on one simulated server."""

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
        """Run on `stage`, which has the fleet and settings of the scenario.

        `tell` is called with a line for each step and finding. `expected` sets the demands
        on clients; their actions before `since` do not count. `addresses` returns the
        addresses of VMs, if `stage` does not listen itself.
        """
        self._stage = stage
        self._time = time
        self._witness = Witness(stage.journal)
        self._tell = tell
        self.expected = expected
        """The demands on clients."""
        self._since = since
        self._addresses = addresses or stage.server.addresses
        self._runs: list[_Run] = []

    @property
    def findings(self) -> Sequence[Finding]:
        """Return the findings so far, of all scenarios of this runner."""
        return [finding for run in self._runs for finding in run.findings]

    def check(self) -> None:
        """Judge the demands on clients that can be decided now."""
        for run in self._runs:
            run.check()

    @property
    def undecided(self) -> Sequence[str]:
        """Return the undecided demands on clients, of all scenarios of this runner."""
        return [sentence for run in self._runs for sentence in run.undecided()]

    def waits_for(self) -> Sequence[str]:
        """Return what all scenarios of this runner wait for, as text.

        These are undecided demands on clients, and operations that have not ended.
        """
        clients: list[str] = []
        for run in self._runs:
            needed = listed(waited_for(run.scenario)) or "any VM"
            missing = f"a client that asks for the events of {needed}"
            clients += [missing if w == NO_CLIENT else w for w in run.undecided()]
        engine = self._stage.engine
        operations = [
            operation
            for run in self._runs
            for operation in run.executor.all_operations()
        ]
        work = engine.read(
            lambda reader: describe.unfinished(reader, operations, now=engine.now)
        )
        return [*clients, *work]

    def cut_short(self, scenarios: Sequence[Scenario], why: str) -> list[Result]:
        """Return the results of interrupted scenarios.

        Each result keeps its earlier findings, and the interruption is one more error.
        """
        runs = {run.scenario.name: run for run in self._runs}
        results: list[Result] = []
        for scenario in scenarios:
            run = runs.get(scenario.name)
            if run is not None and run.result is not None:
                # One of several scenarios may have ended before the others.
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
        """Return whether a scenario has started."""
        return bool(self._runs)

    async def wait_for_clients(
        self, scenarios: Sequence[Scenario], *, seconds: float
    ) -> bool:
        """Wait until the required clients have asked; return whether they have.

        Clients that have not asked do not see events. The wait takes at most `seconds` of
        real time, on any clock.
        """
        log = ClientLog(self._stage, since=self._since)
        try:
            async with asyncio.timeout(seconds):
                # Repeated polls trigger no callback, so check in intervals.
                while not all(may_begin(scenario, log) for scenario in scenarios):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            return False
        finally:
            log.close()
        return True

    def may_begin(self, scenarios: Sequence[Scenario]) -> bool:
        """Return whether the required clients have asked."""
        log = ClientLog(self._stage, since=self._since)
        log.close()
        return all(may_begin(scenario, log) for scenario in scenarios)

    async def run(self, scenario: Scenario) -> Result:
        """Run a scenario until its last step and its operations have ended.

        It does not wait for operations that only an operator can end, such as a failure
        without a restore.
        """
        with self._time.player():
            return await self._play(scenario)

    async def run_together(self, scenarios: Sequence[Scenario]) -> list[Result]:
        """Run several at the same time; return their results in the same order."""

        async def play(scenario: Scenario, player: ExitStack) -> Result:
            with player:
                return await self._play(scenario)

        # Time waits for all scenarios before the first one starts.
        players = [ExitStack() for _ in scenarios]
        for player in players:
            player.enter_context(self._time.player())
        return await asyncio.gather(*map(play, scenarios, players))

    async def _play(self, scenario: Scenario) -> Result:
        executor = StepExecutor(self._stage, reason=scenario.name)
        log = ClientLog(self._stage, since=self._since)
        judge = ClientJudge(
            self._stage,
            scenario,
            expected=self.expected,
            log=log,
            addresses=dict(self._addresses()),
        )
        run = _Run(self._time, executor, scenario, self._tell, judge)
        self._runs.append(run)
        try:
            for step in scenario.steps:
                await run.wait_for(step)
                if isinstance(step.act, Expect):
                    await self._expect(run, step, step.act.expectation)
                else:
                    run.do(step)
            end = self._time.now() + self._platform_takes(
                executor, REST_MAX, operations=len(executor.all_operations())
            )
            while _goes_on(executor):
                if self._time.now() >= end:
                    self._tell(
                        "the remaining operations take too long; not waiting any longer"
                    )
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
        time, executor = self._time, run.executor
        of_clients = wanted.wanted in OF_CLIENTS
        within = wanted.within
        if within and not of_clients:
            within = self._platform_takes(
                executor,
                within,
                operations=max(len(executor.operations(wanted.event)), 1),
            )
        since = self._stage.engine.now
        if step is run.scenario.steps[0] and not (step.after or step.at):
            # The request that started the scenario counts too.
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
            verdict.about(
                describe.telling(step), line=step.line, is_of_client=of_clients
            ),
            took=time.now() - begin,
        )

    def _platform_takes(
        self, executor: StepExecutor, duration: Micros, *, operations: int
    ) -> Micros:
        """Return the maximum time at this speed for a duration of the file.

        Each operation is rounded up. The minimums of notices and impacts make nothing
        longer than it is at speed 1.
        """
        sped_up = executor.scaled(duration)
        floors = self._stage.floors.lengthen() * operations
        return sped_up + min(floors, max(duration - sped_up, 0)) + ROUNDING * operations

    def _judge(
        self, run: "_Run", wanted: Expectation, since: Micros, *, is_over: bool
    ) -> Verdict | None:
        events = run.executor.events(wanted.event) if wanted.event else []
        if not events and not is_over and run.executor.awaits_events(wanted.event):
            return None
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
    """A run of one scenario."""

    def __init__(
        self,
        time: Time,
        executor: StepExecutor,
        scenario: Scenario,
        tell: Callable[[str], None],
        judge: ClientJudge,
    ) -> None:
        self.executor = executor
        self.start = time.now()
        self.began = executor.now
        self.findings: list[Finding] = []
        self.result: Result | None = None
        """None: it has not ended."""
        self._time = time
        self.scenario = scenario
        self._tell = tell
        self._judge = judge

    async def wait_for(self, step: Step) -> None:
        """Wait until the time of the step, which may already have passed."""
        scaled = self.executor.scaled
        begin = self._time.now() if step.at is None else self.start
        target = begin + scaled(step.after if step.at is None else step.at)
        while self._time.now() < target:
            await self.pass_until(target)

    async def pass_until(self, target: Micros, *, closely: bool = False) -> None:
        """Let time pass, then judge the actions of clients."""
        closely = closely or self._judge.is_waited_for(
            self.executor.named_events(), now=self.executor.now
        )
        await self._time.pass_until(target, closely=closely)
        self.check()

    def check(self) -> None:
        """Judge the demands on clients that can be decided now."""
        for finding in self._judge.check(self.executor.named_events()):
            self.found(finding)

    def undecided(self) -> Sequence[str]:
        """Return the undecided demands on clients, as text."""
        return self._judge.undecided(self.executor.named_events())

    async def conclude(self) -> None:
        """Judge the remaining demands on clients, after the time they may take."""
        events = self.executor.named_events()
        while (until := self._judge.awaits(events)) > self.executor.now:
            await self.pass_until(
                self._time.now() + until - self.executor.now, closely=True
            )
        events = self.executor.named_events()
        if self._judge.nobody_asked(events):
            # This is one error, and not a failure of each client.
            self.findings = [_unjudged(finding) for finding in self.findings]
        for finding in self._judge.conclude(events):
            self.found(finding)

    def do(self, step: Step) -> None:
        """Run a step; a refusal is a finding."""
        self._tell(describe.telling(step))
        try:
            self.executor.do(step.act, name=step.name)
        except ForewarnError as error:
            if step.may_be_refused:
                self._tell(f"refused, which is allowed: {operators.refusal(error)}")
                return
            refused = untried(
                f"{describe.telling(step)} was refused: {operators.refusal(error)}"
            )
            self.found(
                refused.about(
                    describe.telling(step), line=step.line, is_of_client=False
                )
            )

    def found(self, finding: Finding, *, took: Micros = 0) -> None:
        """Store and report a finding with the current time."""
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
    """Return the sentence of a finding, with its place if it is a failure."""
    if not finding.failed or not finding.line:
        return finding.sentence
    return f"{finding.sentence} ({scenario.file}:{finding.line})"


def _unjudged(finding: Finding) -> Finding:
    """Return a finding as not judged, because there was no client."""
    if not (finding.is_of_client and finding.failed):
        return finding
    return replace(
        finding, outcome=Outcome.SKIPPED, sentence=f"not judged: {finding.sentence}"
    )


def _goes_on(executor: StepExecutor) -> bool:
    """Return whether any operation will continue automatically."""
    return any(
        operation.state not in ENDED_STATES
        and (operation.due_at or operation.call_state is CallState.ISSUED)
        for operation in executor.all_operations()
    )


def summary(result: Result) -> str:
    """Return the result as a sentence."""
    name, took = result.scenario.name, length(result.took)
    if result.failures:
        return f"{name}: {describe.counted(len(result.failures), 'failure')}, in {took}"
    if result.expected is Expected.NONE:
        return (
            f"{name}: NOT JUDGED, because nothing was expected of a client, in {took}"
        )
    passed = sum(finding.passed for finding in result.findings)
    left = sum(finding.outcome is Outcome.SKIPPED for finding in result.findings)
    text = (
        f"{describe.counted(passed, 'expectation')} met" if passed else "a client asked"
    )
    return f"{name}: {text}{f', {left} not judged' if left else ''}, in {took}"
