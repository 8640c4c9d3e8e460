"""Play scenarios on a simulator, one after the other or several at the same time.

Each round starts a new world at the same addresses. It waits until a client has asked for
its events, because clients that have not asked do not see events.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from forewarn.fleet.file import read_fleet
from forewarn.instants import SECOND, Micros, describe_duration
from forewarn.problems import listed
from forewarn.protocol.errors import BadRequestError
from forewarn.sim import fleets
from forewarn.sim.faults.fault import Playbook
from forewarn.sim.news import Reporter, What
from forewarn.sim.profiles import Profile
from forewarn.sim.scenario import casting, rehearsal
from forewarn.sim.scenario.judging import waited_for
from forewarn.sim.scenario.model import Expected, Scenario, length
from forewarn.sim.scenario.run import Result, Runner, cut_result, summary
from forewarn.sim.scenario.setup import setup_for
from forewarn.sim.scenario.time import RunningTime
from forewarn.sim.simulator import SPEED, Simulator, Terms, usual_setup

TOGETHER = "+"
"""The separator of scenarios that run at the same time, on the command line."""

CUT = "a signal interrupted it before its end"
"""The error of running scenarios that a signal ends."""

NOT_BEGUN = "a signal ended the run before it started"
"""The error of scenarios that had not started."""

WAIT: Micros = 60 * SECOND
"""Default time to wait for a client before a scenario starts without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayOptions:
    """The options that apply to all rounds."""

    vms: int | None = None
    """Number of VMs in the default fleet; None: as the scenario needs."""
    fleet: str = ""
    """A fleet file that replaces the default fleet; empty: none."""
    speed: float | None = None
    """None: the speed of the scenario's alias or file, or SPEED."""
    profile: Profile = Profile.LENIENT
    faults: tuple[Playbook, ...] = ()
    names: tuple[str, ...] = ()
    """Names of the first VMs; with a fleet file, the VMs of the first roles."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Environment variables of settings, as for the service."""

    def cast(self, scenarios: Sequence[Scenario]) -> tuple[Scenario, ...]:
        """Return the scenarios of a round with the names and the fleet of these options.

        Raises RefusedError if the fleet cannot play one of them. Must not be called on a
        running event loop.
        """
        if self.fleet:
            return tuple(
                rehearsal.playable(scenario, self.fleet, names=self.names)
                for scenario in scenarios
            )
        if not self.names:
            return tuple(scenarios)
        wanted = [scenario.fleet.vms or 0 for scenario in scenarios]
        number = self.vms or max(fleets.VMS, *wanted, len(self.names))
        return tuple(
            casting.with_names(scenario, self.names, vms=number)
            for scenario in scenarios
        )

    def terms(self, scenarios: Sequence[Scenario]) -> Terms:
        """Return the initial world of scenarios from `cast`, or of no scenario.

        Raises RefusedError if the scenarios cannot share a world.
        """
        if scenarios:
            setup = setup_for(
                scenarios, vms=self.vms, speed=self.speed, usual_speed=SPEED
            )
        else:
            number = self.vms or max(fleets.VMS, len(self.names))
            setup = usual_setup(number, speed=self.speed or SPEED)
            if self.fleet:
                setup = replace(setup, fleet=self.fleet)
            elif self.names:
                named, _ = casting.named_text(setup.fleet, self.names)
                setup = replace(setup, fleet=named)
        return Terms(
            setup=replace(setup, environ=self.environ),
            profile=self.profile,
            faults=self.faults,
            first=self.names,
        )

    def places(self, rounds: Sequence[Sequence[Scenario]]) -> int:
        """Return the maximum number of positions that a round needs."""
        fleets = {self.terms(scenarios).setup.fleet for scenarios in rounds}
        return max(map(_places_of, fleets), default=0)

    def speed_text(self, terms: Terms) -> str:
        """Return the speed of a world as text, with its origin."""
        speed = terms.setup.speed
        text = f"at speed {speed:g}"
        if self.speed is not None:
            return f"{text} (--speed)"
        return text if speed == SPEED else f"{text} (from the scenario)"


def _places_of(fleet: str) -> int:
    """Return the number of VMs without a listener in a fleet file."""
    return sum(not vm.listen for vm in read_fleet(fleet, name="fleet").vms.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Playlist:
    """The scenarios to play, and how."""

    rounds: tuple[tuple[Scenario, ...], ...] = ()
    """Rounds in order; scenarios of one round run together. Empty: wait for requests."""
    loops: bool = False
    """Start again after the last round, without end."""
    stays: bool = False
    """Keep serving after the last round."""
    expected: Expected = Expected.SCENARIO
    """The demands on clients."""
    wait: Micros = WAIT
    """How long a round waits for the first request of a client; 0: not at all."""
    start_after: Micros = 0
    """How long a round then waits before its first step."""
    timeout: Micros | None = None
    """Maximum duration of a round from its first step; None: no limit."""


def rounds_of(arguments: Sequence[str]) -> list[list[str]]:
    """Return the scenarios of each round: `a + b c` is `a` and `b` together, then `c`.

    Raises BadRequestError if a `+` is not between two scenarios.
    """
    is_plus = [word == TOGETHER for word in arguments]
    if any(map(all, pairwise([True, *is_plus, True]))) and arguments:
        raise BadRequestError(
            "a + must be between two scenarios",
            hint="Example: `forewarn simulate live-migration + user-reboot`.",
        )
    rounds: list[list[str]] = []
    for joins, word in zip([False, *is_plus], arguments, strict=False):
        if joins:
            rounds[-1].append(word)
        elif word != TOGETHER:
            rounds.append([word])
    return rounds


class Player:
    """A player of a playlist on a simulator that has started with the first round."""

    def __init__(
        self,
        simulator: Simulator,
        reporter: Reporter,
        *,
        options: PlayOptions,
        playlist: Playlist,
    ) -> None:
        """Report to `reporter`."""
        self._simulator = simulator
        self._reporter = reporter
        self._options = options
        self._playlist = playlist
        self.results: list[Result] = []
        """Results of ended scenarios; in a loop, of the latest complete iteration."""
        self.not_over = 0
        """Number of scenarios that were interrupted or had not started."""
        self._turns = 0
        """Number of complete iterations."""
        self._runner: Runner | None = None
        self._under_way: Sequence[Scenario] = ()
        """The last started round, which `_runner` runs."""
        self.failures = 0
        """Number of failed scenarios, in all iterations."""
        self.unjudged = 0
        """Number of scenarios without a judgement, in all iterations."""

    @property
    def passed(self) -> bool:
        """Return whether all expectations were met so far."""
        return self.failures == 0 and self._reporter.deviations == 0

    async def play(self) -> None:
        """Play all rounds; in a loop, until cancelled."""
        is_new = True
        while True:
            latest: list[Result] = []
            if not self._turns:
                # If the first iteration is interrupted, the ended scenarios have results.
                self.results = latest
            for scenarios in self._playlist.rounds:
                if not is_new:
                    await self._simulator.begin_with(self._options.terms(scenarios))
                is_new = False
                latest += await self._round(scenarios)
            self.results = latest
            self._turns += 1
            if not self._playlist.loops:
                return

    def cut_short(self, why: str = "") -> None:
        """Add results for all scenarios that did not end, after `play` was interrupted.

        Each gets an error, even if it had not started. `why` is the reason, if it was not
        a signal. In a loop, the latest complete iteration counts if there is one.
        """
        if self._turns:
            return
        done = len(self.results)
        for scenarios in self._playlist.rounds:
            if done >= len(scenarios):
                done -= len(scenarios)
                continue
            runner = self._runner
            if runner is not None and self._under_way is scenarios:
                cut = runner.cut_short(scenarios, why or CUT)
            else:
                expected = self._playlist.expected
                cut = [
                    cut_result(scenario, why or NOT_BEGUN, expected=expected)
                    for scenario in scenarios
                ]
            self.results = [*self.results, *cut]
            self.not_over += sum(bool(result.failures) for result in cut)

    async def _round(self, scenarios: Sequence[Scenario]) -> list[Result]:
        reporter, stage = self._reporter, self._simulator.stage
        runner = Runner(
            stage,
            RunningTime(stage),
            tell=lambda text: reporter.say(What.STEP, text),
            expected=self._playlist.expected,
            addresses=self._simulator.addresses,
        )
        self._runner, self._under_way = runner, scenarios
        try:
            results = await self._played(runner, scenarios)
        finally:
            self._simulator.playing = ""
        for result in results:
            self._tell(result)
        return results

    async def _played(
        self, runner: Runner, scenarios: Sequence[Scenario]
    ) -> list[Result]:
        reporter, timeout = self._reporter, self._playlist.timeout
        names = ", ".join(scenario.name for scenario in scenarios)
        await self._wait_for_clients(runner, scenarios, names)
        await self._start_after(names)
        terms = self._simulator.terms
        reporter.say(
            What.BEGIN,
            f"{names}, {self._options.speed_text(terms)}",
            scenarios=[scenario.name for scenario in scenarios],
            speed=terms.setup.speed,
        )
        self._simulator.playing = names
        try:
            async with asyncio.timeout(None if timeout is None else timeout / SECOND):
                return await runner.run_together(scenarios)
        except TimeoutError:
            assert timeout is not None, "another timeout was raised"
            why = "; ".join(runner.waits_for()) or "the time of its next step"
            sentence = f"it did not end within {length(timeout)} (--timeout)"
            return runner.cut_short(scenarios, f"{sentence}; it waited for: {why}")

    async def _start_after(self, names: str) -> None:
        after = self._playlist.start_after
        if after:
            self._reporter.say(
                What.WAITING,
                f"{names} starts in {describe_duration(after)}",
                wait_seconds=after / SECOND,
            )
            await asyncio.sleep(after / SECOND)

    async def _wait_for_clients(
        self, runner: Runner, scenarios: Sequence[Scenario], names: str
    ) -> None:
        reporter, wait = self._reporter, self._playlist.wait
        if self._playlist.expected is Expected.NONE:
            reporter.say(
                What.SKIPPED,
                f"{names}: NO CLIENT IS JUDGED, because none is expected",
                scenarios=[scenario.name for scenario in scenarios],
            )
        if not wait or await runner.wait_for_clients(scenarios, seconds=0.0):
            return
        needed = {vm: None for scenario in scenarios for vm in waited_for(scenario)}
        who = f"{listed(needed)} has" if len(needed) == 1 else f"{listed(needed)} have"
        reporter.say(
            What.WAITING,
            f"{names} starts when {who if needed else 'a VM has'} asked for its events, "
            f"or in {describe_duration(wait)}",
            wait_seconds=wait / SECOND,
            vms=[*needed],
        )
        await runner.wait_for_clients(scenarios, seconds=wait / SECOND)

    def _tell(self, result: Result) -> None:
        self.failures += bool(result.failures)
        scenario = result.scenario
        why = "".join(
            f"; {scenario.file}:{failure.line}: {failure.sentence}"
            if failure.line
            else f"; {failure.sentence}"
            for failure in result.failures
        )
        kind = What.FAILED if result.failures else What.PASSED
        if not (result.failures or result.passed):
            kind = What.SKIPPED
            self.unjudged += 1
        self._reporter.say(
            kind,
            summary(result) + why,
            scenario=scenario.name,
            failures=[
                {
                    "file": scenario.file,
                    "line": failure.line,
                    "sentence": failure.sentence,
                }
                for failure in result.failures
            ],
        )
