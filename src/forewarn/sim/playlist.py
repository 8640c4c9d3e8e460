"""Scenarios, one after the other or several at once, on a simulator.

Each round begins a world of its own at the same addresses, and waits until a client
has asked for its events: before that, nobody would be told of them.
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
from forewarn.sim.scenario.model import Expected, Scenario
from forewarn.sim.scenario.run import Result, Runner, cut_result, summary
from forewarn.sim.scenario.setup import setup_for
from forewarn.sim.scenario.time import RunningTime
from forewarn.sim.scenario.verdicts import length
from forewarn.sim.simulator import SPEED, Simulator, Terms, usual_setup

TOGETHER = "+"
"""Between two scenarios on the command line: at once."""

CUT = "it was cut short by a signal before its end"
"""Of the scenarios that a signal ends."""

NOT_BEGUN = "cut short by a signal: it had not begun"
"""Of the scenarios whose turn had not come."""

WAIT: Micros = 60 * SECOND
"""For a client to ask, before a scenario begins without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all rounds have in common."""

    vms: int | None = None
    """Of the usual fleet; None: as many as a scenario wants."""
    fleet: str = ""
    """A fleet file in the place of the usual fleet."""
    speed: float | None = None
    """None: what a scenario's name or file says, and else SPEED."""
    profile: Profile = Profile.LENIENT
    faults: tuple[Playbook, ...] = ()
    names: tuple[str, ...] = ()
    """Of the first VMs; of a fleet file, those that play the first roles."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables that stand for settings, as those of the service."""

    def cast(self, scenarios: Sequence[Scenario]) -> tuple[Scenario, ...]:
        """Return the scenarios of a round as they are played on this ground.

        Raises RefusedError where a fleet cannot play one of them. Must not be called
        on a running event loop.
        """
        if self.fleet:
            return tuple(
                rehearsal.playable(each, self.fleet, names=self.names)
                for each in scenarios
            )
        if not self.names:
            return tuple(scenarios)
        wanted = [scenario.fleet.vms or 0 for scenario in scenarios]
        number = self.vms or max(fleets.VMS, *wanted, len(self.names))
        return tuple(
            casting.with_names(each, self.names, vms=number) for each in scenarios
        )

    def terms(self, scenarios: Sequence[Scenario]) -> Terms:
        """Return how the world of these scenarios begins; of none: one that waits.

        They are as `cast` has returned them.

        Raises RefusedError where they cannot share one.
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
        """Return how many positions these rounds need, one after the other."""
        fleets = {self.terms(scenarios).setup.fleet for scenarios in rounds}
        return max(map(_places_of, fleets), default=0)

    def told_speed(self, terms: Terms) -> str:
        """Return the speed of a world for a person, and who wants it."""
        speed = terms.setup.speed
        told = f"at speed {speed:g}"
        if self.speed is not None:
            return f"{told} (--speed)"
        return told if speed == SPEED else f"{told} (the scenario's own)"


def _places_of(fleet: str) -> int:
    """Return how many VMs of a fleet file have no listener of their own."""
    found = read_fleet(fleet, name="fleet")
    return sum(not vm.listen for vm in found.vms.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Playlist:
    """What is played."""

    rounds: tuple[tuple[Scenario, ...], ...] = ()
    """One after the other; the scenarios of a round at once. None: wait for orders."""
    loops: bool = False
    """Begin again after the last, for ever."""
    stays: bool = False
    """Go on serving after the last."""
    expected: Expected = Expected.SCENARIO
    """How much is demanded of clients."""
    wait: Micros = WAIT
    """How long a round waits for a client to ask for its events; 0: not at all."""
    start_after: Micros = 0
    """How long a round waits after that, before its first step."""
    timeout: Micros | None = None
    """How long a round may take from its first step; None: as long as it takes."""


def rounds_of(words: Sequence[str]) -> list[list[str]]:
    """Return the words of each round: `a + b c` is `a` and `b` at once, then `c`.

    Raises BadRequestError where a `+` has nothing on one of its sides.
    """
    is_plus = [word == TOGETHER for word in words]
    if any(map(all, pairwise([True, *is_plus, True]))) and words:
        raise BadRequestError(
            "a + stands between two scenarios",
            hint="such as: forewarn simulate live-migration + user-reboot",
        )
    rounds: list[list[str]] = []
    for joins, word in zip([False, *is_plus], words, strict=False):
        if joins:
            rounds[-1].append(word)
        elif word != TOGETHER:
            rounds.append([word])
    return rounds


class Player:
    """Plays a programme on a simulator that has started with its first round."""

    def __init__(
        self,
        simulator: Simulator,
        reporter: Reporter,
        *,
        ground: Ground,
        playlist: Playlist,
    ) -> None:
        """Tell what happens to `reporter`."""
        self._simulator = simulator
        self._reporter = reporter
        self._ground = ground
        self._playlist = playlist
        self.results: list[Result] = []
        """Of all that is over: in a loop, of the latest turn of each scenario."""
        self.not_over = 0
        """Scenarios that were cut short, or had not begun by then."""
        self._turns = 0
        """How often everything was played to its end."""
        self._runner: Runner | None = None
        self._under_way: Sequence[Scenario] = ()
        """The round that began last, which `_runner` runs."""
        self.failures = 0
        """Scenarios that failed, in all turns."""
        self.unjudged = 0
        """Scenarios of which nothing was judged, in all turns."""

    @property
    def passed(self) -> bool:
        """Tell whether everything was as expected so far."""
        return self.failures == 0 and self._reporter.deviations == 0

    async def play(self) -> None:
        """Play everything; in a loop, until cancelled."""
        is_new = True
        while True:
            latest: list[Result] = []
            if not self._turns:
                # Who is cut short has at least what was over by then.
                self.results = latest
            for scenarios in self._playlist.rounds:
                if not is_new:
                    await self._simulator.begin_with(self._ground.terms(scenarios))
                is_new = False
                latest += await self._round(scenarios)
            self.results = latest
            self._turns += 1
            if not self._playlist.loops:
                return

    def cut_short(self, why: str = "") -> None:
        """Have results of all that is not over, once `play` has ended before its end.

        That is an error of each, also of those that had not begun; `why`: unless a
        signal has ended it. Of a loop, the latest whole turn counts if there is one.
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
                    cut_result(each, why or NOT_BEGUN, expected=expected)
                    for each in scenarios
                ]
            self.results = [*self.results, *cut]
            self.not_over += sum(bool(each.failures) for each in cut)

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
            f"{names}, {self._ground.told_speed(terms)}",
            scenarios=[scenario.name for scenario in scenarios],
            speed=terms.setup.speed,
        )
        self._simulator.playing = names
        try:
            async with asyncio.timeout(None if timeout is None else timeout / SECOND):
                return await runner.run_together(scenarios)
        except TimeoutError:
            assert timeout is not None, "something else has timed out"
            why = "; ".join(runner.waits_for()) or "the time of its next step"
            sentence = f"it was not over within {length(timeout)} (--timeout)"
            return runner.cut_short(scenarios, f"{sentence}, and waited for: {why}")

    async def _start_after(self, names: str) -> None:
        after = self._playlist.start_after
        if after:
            self._reporter.say(
                What.WAITING,
                f"{names} begins in {describe_duration(after)}",
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
                f"{names}: NO CLIENT IS JUDGED, since none is expected",
                scenarios=[scenario.name for scenario in scenarios],
            )
        if not wait or await runner.wait_for_clients(scenarios, seconds=0.0):
            return
        needed = {vm: None for each in scenarios for vm in waited_for(each)}
        who = f"{listed(needed)} has" if len(needed) == 1 else f"{listed(needed)} have"
        reporter.say(
            What.WAITING,
            f"{names} begins when {who if needed else 'a VM has'} asked for its events, "
            f"or by itself in {describe_duration(wait)}",
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
        what = What.FAILED if result.failures else What.PASSED
        if not (result.failures or result.passed):
            what = What.SKIPPED
            self.unjudged += 1
        self._reporter.say(
            what,
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
