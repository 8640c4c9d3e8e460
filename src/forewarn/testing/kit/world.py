"""A world for a test: VMs with real addresses, an operator's verbs, and assertions.

    with ScheduledEvents(vms=3) as world:
        event = world.vm("web_0").preempt()
        ...
        event.wait_for_approval()

Each world is alone: its own VMs, addresses, clock, events and journal. All worlds of
a process share one loop thread, which starts with the first and ends with the last.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from forewarn.instants import SECOND
from forewarn.protocol.errors import RefusedError
from forewarn.sim.journal import Seen
from forewarn.sim.scenario.model import Scenario
from forewarn.sim.scenario.run import Result
from forewarn.sim.vms import NewVm
from forewarn.testing.kit import (
    failure_report,
    judging,
    operators,
    orders,
    playing,
    replayed,
    requests,
)
from forewarn.testing.kit.aio_world import AioScheduledEvents
from forewarn.testing.kit.any_core import AnyCore
from forewarn.testing.kit.calls import checked
from forewarn.testing.kit.core import Core, live
from forewarn.testing.kit.durations import Length, micros_of, seconds_of
from forewarn.testing.kit.event import Event
from forewarn.testing.kit.faults import Faults
from forewarn.testing.kit.playing import Playing
from forewarn.testing.kit.replayed import ReplayCore, replaying
from forewarn.testing.kit.roster import Roster
from forewarn.testing.kit.setup import (
    ClockKind,
    ExpectName,
    ProfileName,
    Wanted,
    check_expected,
)
from forewarn.testing.kit.several import Several
from forewarn.testing.kit.shared_loop import SHARED_LOOP
from forewarn.testing.kit.vm import Vm
from forewarn.testing.kit.waits import EVENT_SECONDS, REQUEST_SECONDS


class ScheduledEvents(Several):
    """A world of VMs that are told of maintenance. Close it, or use it in a `with`."""

    @checked
    def __init__(
        self,
        vms: int | None = None,
        *,
        together: bool = False,
        fleet: str | Path = "",
        clock: ClockKind = "machine",
        speed: float | None = None,
        settings: Mapping[str, str] | None = None,
        profile: ProfileName = "lenient",
        but: str | Collection[str] = (),
        enabled: bool | None = None,
        seed: int | None = None,
        faults: str | int | Path = "",
        scenario: str | Path | None = None,
        expect: ExpectName | None = None,
        replay: str | Path | None = None,
        names: str | Collection[str] = (),
    ) -> None:
        """Begin a world of VMs, web_0 and so on, each at its own address.

        `vms`: how many, usually three. `together`: all on one host. `fleet`: a fleet
        file, or its text, instead. `clock`: see `ClockKind`. `speed` divides notices,
        impacts and recoveries; usually 1, or what the scenario says. `settings`: of
        the service, by whole name. `profile`: see `ProfileName`. `but`: rules that do
        not count for the profile `strict`, such as `too-often`. `enabled`: False has the
        first request of each scope enable it (7.1), as with the profile `real`. `seed`:
        of ids, to have the same again. `faults`: a line of faults for every VM, or a
        faults file. `scenario`: its name or file; it begins when a client has asked
        for its events. `replay`: a recording of `forewarn record`, which begins with
        the first request. `expect`: how much either demands of clients, see
        `ExpectName`, usually `scenario`. `names`: of the first VMs, or of `fleet` those that a scenario is
        about.

        Raises RefusedError, FleetFileError, SettingsError, FaultError, ScenarioError
        or RecordingError for what cannot be, OSError for a file that cannot be read,
        and StartError where no address is to be had.
        """
        self._profile, self._but = profile, requests.rules_spared(but, profile)
        check_expected(scenario=scenario, replay=replay, expect=expect)
        expect = expect or "scenario"
        wanted = Wanted(
            vms=vms,
            together=together,
            fleet=fleet,
            clock=clock,
            speed=speed,
            settings=settings,
            profile=profile,
            enabled=enabled,
            seed=seed,
            scenario=scenario or "",
            expect=expect,
            replay=replay or "",
            names=(names,) if isinstance(names, str) and names else names or (),
        )
        played = wanted.cast(playing.find_scenario(scenario) if scenario else None)
        self._begin(wanted, played, faults)
        self._playing: Playing | None = None
        if played is not None:
            self._playing = Playing(live(self._core), played, expect)

    def _begin(
        self, wanted: Wanted, played: Scenario | None, faults: str | int | Path
    ) -> None:
        self._api_url = ""
        loop = SHARED_LOOP.lease()
        try:
            self._core: AnyCore = (
                ReplayCore.begin(loop, wanted)
                if wanted.replay
                else Core.begin(loop, wanted, played)
            )
        except BaseException:
            SHARED_LOOP.give_back()
            raise
        self._is_open = True
        self.faults = Faults(self._core)
        """What goes wrong with answers."""
        try:
            self._roster = Roster(self._core)
            self._core.ending.told = repr(self)
            if isinstance(faults, Path):
                self.faults.load(faults)
            elif faults != "":
                self.faults.set(faults)
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        """Return the world."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the world; after an error, which says more, it is not judged."""
        __tracebackhide__ = True
        self.close(judge=error is None)

    @checked
    def judge(self) -> None:
        """Fail for what the world itself expects, whatever its test does.

        That is no deviation with the profile `strict`, and what the scenario or the
        replay expects of clients, which must have been seen by now. `close`, and so a
        `with` and the fixture, ask at the end. Raises RefusedError once closed.
        """
        __tracebackhide__ = True
        self._core.refuse_if_gone()
        if self._profile == "strict":
            self.assert_no_deviations(but=self._but)
        if self._playing is not None:
            self._core.call(self._playing.judge)
        if isinstance(core := self._core, ReplayCore):
            core.call(lambda: replayed.judge(core))

    @checked
    def close(self, *, judge: bool = True) -> None:
        """Judge the world, and end it: its addresses answer no more.

        It ends also where what it expects was not seen, see `judge`. `judge=False`
        ends it whatever was seen: for a test that has failed already. Twice does no
        harm.
        """
        __tracebackhide__ = True
        if not self._is_open:
            return
        try:
            # A fork closes what it never saw.
            if judge and not self._core.ending.is_forked:
                self.judge()
        finally:
            self._end()

    def _end(self) -> None:
        self._is_open = False
        self._core.end()

    @property
    def is_open(self) -> bool:
        """Tell whether it goes on; one that was closed takes and answers nothing."""
        return self._is_open

    def __repr__(self) -> str:
        """Return it as a failing assertion shows it."""
        return f"<ScheduledEvents {', '.join(vm.name for vm in self.vms)}>"

    # VMs

    @property
    def vms(self) -> tuple[Vm, ...]:
        """Return all VMs, also those that were deleted meanwhile."""
        return self._roster.vms

    @checked
    def vm(self, name: str) -> Vm:
        """Return a VM by its name; raises RefusedError for one that is not there."""
        return self._roster.vm(name)

    @property
    @checked
    def hosts(self) -> tuple[str, ...]:
        """Return the names of all hosts."""
        return self._roster.hosts

    @checked
    def environment(self) -> dict[str, str]:
        """Return the variables for a program that runs as if in the first VM."""
        return self.vms[0].environment()

    @property
    @checked
    def api_url(self) -> str:
        """Return the URL of this world's operator API, as FOREWARN_URL takes it.

        It is served from the first time that somebody asks for it.
        """
        if not self._api_url:
            self._api_url = self._core.wait(operators.serve(live(self._core)))
        return self._api_url

    @checked
    def add_vm(self, name: str, *, host: str = "", spot: bool = False) -> Vm:
        """Add a VM, on a new host unless one is named; it is in the others' scope.

        Raises RefusedError, BadRequestError, and StartError where nothing can listen.
        """
        return self._roster.add(NewVm(name=name, host=host, spot=spot))

    @checked
    def remove_vm(self, name: str) -> None:
        """Take a VM out of the fleet; its address answers 404 from now on."""
        self._roster.remove(self.vm(name).name)

    @checked
    def apply_fleet(self, fleet: str | Path) -> None:
        """Have this fleet instead: VMs come with an address, go and move.

        Raises FleetFileError, and RefusedError for what may not be changed now.
        """
        self._roster.apply(fleet)

    # Time

    @property
    @checked
    def now(self) -> datetime:
        """Return the time in this world: the machine's, or that of its own clock."""
        return self._core.now()

    @checked
    def advance(self, by: Length) -> None:
        """Let time pass at once: whatever falls due on the way has happened.

        On the machine's clock, everything pending comes nearer: NotBefore stays
        true, and documents that show it change.

        A notice of 15 minutes is over after `advance("15m")`, although its NotBefore
        is rounded up to a second: the rest of that second does not count.
        """
        __tracebackhide__ = True
        micros = micros_of(by)
        self._core.call(lambda: self._core.advance(micros))

    @checked
    def step(self) -> float:
        """Jump to whatever falls due next; return how many seconds off it was."""
        return self._core.call(self._core.step) / SECOND

    @checked
    def pause(self) -> None:
        """Have nothing fall due until `resume`; requests are answered as ever."""
        self._core.call(self._core.pause)

    @checked
    def resume(self) -> None:
        """Go on: what is pending is put off by as long as the pause took."""
        self._core.call(self._core.resume)

    # What befalls several at once

    @property
    @checked
    def events(self) -> list[Event]:
        """Return the events that stand, the oldest first."""
        core = self._core
        found = core.call(lambda: [each.event_id for each in core.live_events()])
        return [Event(core, event_id) for event_id in found]

    @checked
    def event(self, event_id: str) -> Event:
        """Return an event by its EventId; raises RefusedError for an unknown one."""
        core = self._core
        stored = core.call(lambda: core.event(event_id.upper()))
        return Event(core, stored.event_id)

    @checked
    def wait_for_event(
        self,
        type: str = "",  # noqa: A002 - the wire's own word
        *,
        vm: str = "",
        timeout: Length = EVENT_SECONDS,
    ) -> Event:
        """Wait until an event stands, of a type and naming a VM where they are given.

        Events come by themselves in scenarios and recordings. Fail if none comes.
        """
        __tracebackhide__ = True
        core, kind = self._core, orders.type_or_any(type)
        return Event(
            core, core.wait(judging.coming(core, kind, vm, seconds_of(timeout)))
        )

    # Scenarios

    @checked
    def run_scenario(
        self,
        name: str | Path,
        timeout: Length | None = None,
        *,
        expect: ExpectName = "scenario",
    ) -> Result:
        """Run a scenario to its end on this world's fleet; fail if it fails.

        It begins when a client has asked for its events; `expect`: see `ExpectName`.
        What the scenario says of fleet, settings and speed does not count: begin the
        world with it where that matters. `timeout`: in real time, usually ten minutes
        more than it takes where nobody approves. Raises NotFoundError or
        ScenarioError.
        """
        __tracebackhide__ = True
        core, scenario = live(self._core), playing.find_scenario(name)
        return core.wait(playing.run(core, scenario, timeout, expect))

    @checked
    def wait_for_scenario(self, timeout: Length | None = None) -> Result:
        """Wait for the end of the scenario that the world began with.

        A virtual clock goes on by itself meanwhile, from one thing that is due to the
        next.

        Fail if it fails, or is not over in time; `timeout` as for `run_scenario`.
        """
        __tracebackhide__ = True
        return self._core.wait(self._begun().end(timeout))

    @checked
    def wait_for_replay(self, timeout: Length | None = None) -> list[Event]:
        """Wait for the end of the recording; return the events that it has shown.

        Fail if it is not over in time, usually ten seconds more than it takes.
        """
        __tracebackhide__ = True
        core = replaying(self._core)
        return [Event(core, each) for each in core.wait(replayed.over(core, timeout))]

    def _begun(self) -> Playing:
        if self._playing is None:
            raise RefusedError(
                "this world began without a scenario", hint="scenario='spot-preemption'"
            )
        return self._playing

    @property
    def aio(self) -> AioScheduledEvents:
        """Return the waits for tests that run on an asyncio loop."""
        return AioScheduledEvents(self._core, self._begun)

    # What was asked

    @property
    @checked
    def journal(self) -> list[Seen]:
        """Return the requests of all VMs that are remembered, the oldest first."""
        return self._core.call(lambda: self._core.requests([]))

    @property
    @checked
    def deviations(self) -> list[str]:
        """Return what clients did otherwise than the protocol says, in sentences."""
        return self._core.call(lambda: requests.deviations(self._core))

    @checked
    def clear_journal(self) -> None:
        """Forget the requests so far; what they did is not judged any more."""
        self._core.call(self._core.journal.clear)

    @checked
    def wait_for_requests(
        self, count: int = 1, timeout: Length = REQUEST_SECONDS
    ) -> list[Seen]:
        """Wait for so many more requests of any VM; fail if they do not come."""
        __tracebackhide__ = True
        core = self._core
        return core.wait(requests.visits(core, "", count, seconds_of(timeout)))

    @checked
    def assert_no_deviations(self, *, but: str | Collection[str] = ()) -> None:
        """Fail if a client did anything otherwise than the protocol says.

        Rules that are named in `but`, such as `too-often`, do not count.
        """
        __tracebackhide__ = True
        names = requests.rules_named(but)
        self._core.call(lambda: requests.judge_deviations(self._core, but=names))

    @checked
    def story(self) -> str:
        """Return the events that stand and the last requests, for a person."""
        return "\n".join(self._core.call(lambda: failure_report.story(self._core)))
