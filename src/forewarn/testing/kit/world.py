"""A world for a test: VMs with real addresses, an operator's verbs, and assertions.

    with ScheduledEvents(vms=3) as world:
        event = world.vm("web_0").preempt()
        ...
        event.wait_for_approval()

Worlds are independent: each has its own VMs, addresses, clock, events and journal. All
worlds of a process share one loop thread, which starts with the first world and ends
with the last one.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from forewarn.instants import SECOND
from forewarn.protocol.errors import RefusedError
from forewarn.sim.journal import JournalEntry
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
from forewarn.testing.kit.calls import checked
from forewarn.testing.kit.core import AnyCore, Core, live
from forewarn.testing.kit.durations import (
    EVENT_SECONDS,
    REQUEST_SECONDS,
    Length,
    micros_of,
    seconds_of,
)
from forewarn.testing.kit.ending import SHARED_LOOP
from forewarn.testing.kit.event import Event
from forewarn.testing.kit.faults import Faults
from forewarn.testing.kit.playing import Playing
from forewarn.testing.kit.replayed import ReplayCore, replaying
from forewarn.testing.kit.setup import (
    ClockKind,
    ExpectName,
    ProfileName,
    Wanted,
    check_expected,
)
from forewarn.testing.kit.several import Roster, Several
from forewarn.testing.kit.vm import Vm

__tracebackhide__ = True
"""pytest shows the line of the test that failed, and no line of this module."""


class AioScheduledEvents:
    """The wait methods of a world for asyncio tests; they do not block the loop."""

    def __init__(self, core: AnyCore, current_playing: Callable[[], Playing]) -> None:
        """Store the core; `current_playing` returns the scenario that the world plays."""
        self._core = core
        self._current_playing = current_playing

    @checked
    async def wait_for_requests(
        self, count: int = 1, timeout: Length = REQUEST_SECONDS
    ) -> list[JournalEntry]:
        """Wait as `ScheduledEvents.wait_for_requests` does."""
        waiting = requests.visits(self._core, "", count, seconds_of(timeout))
        return await self._core.awaited(waiting)

    @checked
    async def run_scenario(
        self,
        name: str | Path,
        timeout: Length | None = None,
        *,
        expect: ExpectName = "scenario",
    ) -> Result:
        """Run a scenario as `ScheduledEvents.run_scenario` does."""
        scenario = playing.find_scenario(name)
        running = playing.run(live(self._core), scenario, timeout, expect)
        return await self._core.awaited(running)

    @checked
    async def wait_for_scenario(self, timeout: Length | None = None) -> Result:
        """Wait as `ScheduledEvents.wait_for_scenario` does."""
        return await self._core.awaited(self._current_playing().end(timeout))

    @checked
    async def wait_for_event(
        self,
        type: str = "",  # noqa: A002 - the protocol's word
        *,
        vm: str = "",
        timeout: Length = EVENT_SECONDS,
    ) -> Event:
        """Wait as `ScheduledEvents.wait_for_event` does."""
        core, kind = self._core, orders.type_or_any(type)
        waiting = judging.coming(core, kind, vm, seconds_of(timeout))
        return Event(core, await core.awaited(waiting))

    @checked
    async def wait_for_replay(self, timeout: Length | None = None) -> list[Event]:
        """Wait as `ScheduledEvents.wait_for_replay` does."""
        core = replaying(self._core)
        event_ids = await core.awaited(replayed.over(core, timeout))
        return [Event(core, event_id) for event_id in event_ids]


class ScheduledEvents(Several):
    """A world of simulated VMs that receive events. Close it, or use it in a `with`."""

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
        """Begin a world of VMs, web_0 and so on, each with its own address.

        `vms`: number of VMs, by default three. `together`: all on one host. `fleet`: a
        fleet file, or its text, instead. `clock`: see `ClockKind`. `speed`: divides
        notices, impacts and recoveries; by default 1, or the speed of the scenario.
        `settings`: settings of the service, by full name. `profile`: see `ProfileName`.
        `but`: rules that the profile `strict` ignores, such as `too-often`. `enabled`:
        if False, the first request of each scope enables it (7.1), as with the profile
        `real`. `seed`: for reproducible IDs. `faults`: a line of faults for every VM, or
        a faults file. `scenario`: its name or file; it begins with the first poll of a
        client. `replay`: a recording of `forewarn record`; it begins with the first
        request. `expect`: the expectations of the scenario or replay about clients, see
        `ExpectName`; by default `scenario`. `names`: names of the first VMs, or VMs of
        `fleet` that play the roles of the scenario.

        Raises RefusedError, FleetFileError, SettingsError, FaultError, ScenarioError
        or RecordingError for invalid arguments, OSError if a file cannot be read, and
        StartError if a listener cannot be opened.
        """
        self._profile, self._but = profile, requests.rules_spared(but, profile)
        check_expected(scenario=scenario, replay=replay, expect=expect)
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
            expect=expect or "scenario",
            replay=replay or "",
            names=(names,) if isinstance(names, str) and names else names or (),
        )
        played = wanted.cast(playing.find_scenario(scenario) if scenario else None)
        self._begin(wanted, played, faults)
        self._playing: Playing | None = None
        if played is not None:
            self._playing = Playing(live(self._core), played, wanted.expect)

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
        """The faults in answers to VMs."""
        try:
            self._roster = Roster(self._core)
            self._core.ending.world_text = repr(self)
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
        """Close the world. After an error, do not judge it: the error says more."""
        self.close(judge=error is None)

    @checked
    def judge(self) -> None:
        """Fail if an expectation of the world itself is not met.

        With the profile `strict`, no client may have deviated from the protocol. Clients
        must have met all expectations of the scenario or the replay by now. `close` calls
        this, and so do `with` and the fixture. Raises RefusedError for a closed world.
        """
        self._core.refuse_if_gone()
        if self._profile == "strict":
            self.assert_no_deviations(but=self._but)
        if self._playing is not None:
            self._core.call(self._playing.judge)
        if isinstance(core := self._core, ReplayCore):
            core.call(lambda: replayed.judge(core))

    @checked
    def close(self, *, judge: bool = True) -> None:
        """Judge the world, and end it: its addresses no longer answer.

        It ends even if an expectation is unmet, see `judge`. `judge=False` ends it
        without judging, for a test that has already failed. A second call does nothing.
        """
        if not self._is_open:
            return
        try:
            # A forked process has not seen the requests.
            if judge and not self._core.ending.is_forked:
                self.judge()
        finally:
            self._end()

    def _end(self) -> None:
        self._is_open = False
        self._core.end()

    @property
    def is_open(self) -> bool:
        """Return whether the world is open; a closed one accepts no calls."""
        return self._is_open

    def __repr__(self) -> str:
        """Return the text that a failed assertion shows."""
        return f"<ScheduledEvents {', '.join(vm.name for vm in self.vms)}>"

    # VMs

    @property
    def vms(self) -> tuple[Vm, ...]:
        """Return all VMs, including deleted ones."""
        return self._roster.vms

    @checked
    def vm(self, name: str) -> Vm:
        """Return a VM by its name; raises NotFoundError for an unknown one."""
        return self._roster.vm(name)

    @property
    @checked
    def hosts(self) -> tuple[str, ...]:
        """Return the names of all hosts."""
        return self._roster.hosts

    @checked
    def environment(self) -> dict[str, str]:
        """Return the environment variables for a program of the first VM."""
        return self.vms[0].environment()

    @property
    @checked
    def api_url(self) -> str:
        """Return the URL of this world's operator API, for FOREWARN_URL.

        The first use of this property starts the API.
        """
        if not self._api_url:
            self._api_url = self._core.wait(operators.serve(live(self._core)))
        return self._api_url

    @checked
    def add_vm(self, name: str, *, host: str = "", spot: bool = False) -> Vm:
        """Add a VM to the scope of the others, on a new host unless one is given.

        Raises RefusedError, BadRequestError, and StartError if no listener can be opened.
        """
        return self._roster.add(NewVm(name=name, host=host, spot=spot))

    @checked
    def remove_vm(self, name: str) -> None:
        """Remove a VM from the fleet; its address then answers 404."""
        self._roster.remove(self.vm(name).name)

    @checked
    def apply_fleet(self, fleet: str | Path) -> None:
        """Apply another fleet: add VMs with addresses, remove VMs and move VMs.

        Raises FleetFileError, and RefusedError for changes that are not possible now.
        """
        self._roster.apply(fleet)

    # Time

    @property
    @checked
    def now(self) -> datetime:
        """Return the time in this world: the machine's, or that of its virtual clock."""
        return self._core.now()

    @checked
    def advance(self, by: Length) -> None:
        """Advance the time at once, and run all timers on the way.

        On the machine's clock, pending timers come nearer: NotBefore changes, and so do
        the documents that show it.

        A notice of 15 minutes is over after `advance("15m")`, although its NotBefore is
        rounded up to a whole second.
        """
        micros = micros_of(by)
        self._core.call(lambda: self._core.advance(micros))

    @checked
    def step(self) -> float:
        """Advance the time to the next timer; return by how many seconds."""
        return self._core.call(self._core.step) / SECOND

    @checked
    def pause(self) -> None:
        """Stop all timers until `resume`; VMs still get answers."""
        self._core.call(self._core.pause)

    @checked
    def resume(self) -> None:
        """Continue; pending timers are delayed by the length of the pause."""
        self._core.call(self._core.resume)

    # Events
    @property
    @checked
    def events(self) -> list[Event]:
        """Return the current events, the oldest first."""
        events_live = self._core.call(self._core.live_events)
        return [Event(self._core, seen.event_id) for seen in events_live]

    @checked
    def event(self, event_id: str) -> Event:
        """Return an event by its EventId; raises NotFoundError for an unknown one."""
        stored = self._core.call(lambda: self._core.event(event_id.upper()))
        return Event(self._core, stored.event_id)

    @checked
    def wait_for_event(
        self,
        type: str = "",  # noqa: A002 - the protocol's word
        *,
        vm: str = "",
        timeout: Length = EVENT_SECONDS,
    ) -> Event:
        """Wait for an event, perhaps of a type or for a VM; fail if none comes in time.

        Use it for the events of scenarios and recordings.
        """
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

        It begins with the first poll of a client; `expect`: see `ExpectName`. It does not
        use the fleet, settings and speed of the scenario: to use them, begin the world
        with the scenario. `timeout`: in real time, by default ten minutes more than the
        scenario takes without approvals. Raises NotFoundError or ScenarioError.
        """
        core, scenario = live(self._core), playing.find_scenario(name)
        return core.wait(playing.run(core, scenario, timeout, expect))

    @checked
    def wait_for_scenario(self, timeout: Length | None = None) -> Result:
        """Wait for the end of the scenario that the world began with.

        Meanwhile a virtual clock advances automatically, from one timer to the next.

        Fail if it fails or does not end in time; `timeout` as for `run_scenario`.
        """
        return self._core.wait(self._current_playing().end(timeout))

    @checked
    def wait_for_replay(self, timeout: Length | None = None) -> list[Event]:
        """Wait for the end of the recording; return all its events.

        Fail if it does not end in time, by default ten seconds more than its length.
        """
        core = replaying(self._core)
        return [
            Event(core, event_id)
            for event_id in core.wait(replayed.over(core, timeout))
        ]

    def _current_playing(self) -> Playing:
        if self._playing is None:
            raise RefusedError(
                "this world began without a scenario",
                hint="Begin it with scenario='spot-preemption'.",
            )
        return self._playing

    @property
    def aio(self) -> AioScheduledEvents:
        """Return the wait methods for tests on an asyncio loop."""
        return AioScheduledEvents(self._core, self._current_playing)

    # Requests of the VMs
    @property
    @checked
    def journal(self) -> list[JournalEntry]:
        """Return the recorded requests of all VMs, the oldest first."""
        return self._core.call(lambda: self._core.requests([]))

    @property
    @checked
    def deviations(self) -> list[str]:
        """Return the deviations of clients from the protocol, as text."""
        return self._core.call(lambda: requests.deviations(self._core))

    @checked
    def clear_journal(self) -> None:
        """Delete the recorded requests, so that they are no longer judged."""
        self._core.call(self._core.journal.clear)

    @checked
    def wait_for_requests(
        self, count: int = 1, timeout: Length = REQUEST_SECONDS
    ) -> list[JournalEntry]:
        """Wait for `count` more requests of any VM; fail if they do not come in time."""
        waiting = requests.visits(self._core, "", count, seconds_of(timeout))
        return self._core.wait(waiting)

    @checked
    def assert_no_deviations(self, *, but: str | Collection[str] = ()) -> None:
        """Fail if a client deviated from the protocol.

        Rules in `but`, such as `too-often`, do not count.
        """
        names = requests.rules_named(but)
        self._core.call(lambda: requests.judge_deviations(self._core, but=names))

    @checked
    def story(self) -> str:
        """Return the current events and the last requests, as text for people."""
        return "\n".join(self._core.call(lambda: failure_report.story(self._core)))
