"""A world for a test: VMs with real addresses, an operator's verbs, and assertions.

    with ScheduledEvents(vms=3) as world:
        event = world.vm("web_0").preempt()
        ...
        event.wait_for_approval()

Each world is alone: its own VMs, addresses, clock, events and journal. All worlds of
a process share one loop thread, which starts with the first and ends with the last.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from forewarn.control import fleet_changes
from forewarn.fleet.file import read_fleet
from forewarn.protocol.errors import RefusedError
from forewarn.service.listening import StartError
from forewarn.sim import vms as fleet_vms
from forewarn.sim.journal import Seen
from forewarn.sim.scenario.run import Result
from forewarn.sim.vms import NewVm
from forewarn.testing.kit import operators, orders, playing, requests, telling
from forewarn.testing.kit.core import Core
from forewarn.testing.kit.durations import Length, micros_of, seconds_of
from forewarn.testing.kit.event import Event
from forewarn.testing.kit.faults import Faults
from forewarn.testing.kit.files import text_of
from forewarn.testing.kit.orders import Decide, Wishing
from forewarn.testing.kit.playing import Playing
from forewarn.testing.kit.setup import ClockKind, ProfileName, Wanted, vms_of
from forewarn.testing.kit.shared_loop import SHARED_LOOP
from forewarn.testing.kit.vm import Vm
from forewarn.testing.kit.waits import REQUEST_SECONDS


class ScheduledEvents:
    """A world of VMs that are told of maintenance. Close it, or use it in a `with`."""

    def __init__(
        self,
        *,
        vms: int | None = None,
        together: bool = False,
        fleet: str | Path = "",
        clock: ClockKind = "machine",
        speed: float | None = None,
        settings: Mapping[str, str] | None = None,
        profile: ProfileName = "lenient",
        enabled: bool | None = None,
        seed: int | None = None,
        faults: str | Path = "",
        scenario: str | Path = "",
    ) -> None:
        """Begin a world of VMs, web_0 and so on, each at its own address.

        `vms`: how many, usually three. `together`: all on one host. `fleet`: a fleet
        file, or its text, instead. `clock`: see `ClockKind`. `speed` divides notices,
        impacts and recoveries; usually 1, or what the scenario's name says.
        `settings`: of the service, by whole name. `profile`: see `ProfileName`.
        `enabled`: False has the first request of each scope enable it (7.1), as with
        the profile `real`. `seed`: of ids, to have the same again. `faults`: a line
        of faults for every VM, or a faults file. `scenario`: its name or file; it
        begins at once.

        Raises RefusedError, FleetFileError, SettingsError, FaultError or
        ScenarioError for what cannot be, OSError for a file that cannot be read, and
        StartError where no address is to be had.
        """
        self._wanted = Wanted(
            vms=vms,
            together=together,
            fleet=fleet,
            clock=clock,
            speed=speed,
            settings=settings,
            profile=profile,
            enabled=enabled,
            seed=seed,
            faults=faults,
            scenario=scenario,
        )
        self._wanted.check()
        played = playing.find_scenario(scenario) if scenario else None
        self._is_open = True
        self._aio: AioScheduledEvents | None = None
        self._vms: dict[str, Vm] = {}
        self._api_url = ""
        loop = SHARED_LOOP.lease()
        try:
            self._core = Core.begin(loop, self._wanted, played)
        except BaseException:
            SHARED_LOOP.give_back()
            raise
        self.faults = Faults(self._core)
        """What goes wrong with answers."""
        try:
            self._take_vms()
            if isinstance(faults, Path):
                self.faults.load(faults)
            elif faults:
                self.faults.set(faults)
        except BaseException:
            self.close()
            raise
        self._playing: Playing | None = None
        if played is not None:
            self._playing = Playing(self._core, played)

    def __enter__(self) -> Self:
        """Return the world."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the world; without another error, judge it first, see `judge`."""
        __tracebackhide__ = True
        try:
            if error is None and self._is_open:
                self.judge()
        finally:
            self.close()

    def judge(self) -> None:
        """Fail for what the world itself expects, whatever its test does.

        That is no deviation with the profile `strict`, and no failure of the scenario
        so far: what that has yet to decide does not count. A `with` and the fixture
        ask at their end.
        """
        __tracebackhide__ = True
        if self._wanted.profile == "strict":
            self.assert_no_deviations()
        if self._playing is not None:
            self._core.call(self._playing.judge)

    def close(self) -> None:
        """End the world; its addresses answer no more. Twice does no harm."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._core.end()
        finally:
            SHARED_LOOP.give_back()

    @property
    def is_open(self) -> bool:
        """Tell whether it goes on; one that was closed takes and answers nothing."""
        return self._is_open

    def __repr__(self) -> str:
        """Return it as a failing assertion shows it."""
        return f"<ScheduledEvents {', '.join(self._vms)}>"

    # VMs

    @property
    def vms(self) -> tuple[Vm, ...]:
        """Return all VMs, also those that were deleted meanwhile."""
        return tuple(self._vms.values())

    def vm(self, name: str) -> Vm:
        """Return a VM by its name; raises RefusedError for one that is not there."""
        found = self._vms.get(name)
        if found is None:
            raise RefusedError(
                f"there is no vm {name} in this world", hint=", ".join(self._vms)
            )
        return found

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names of all hosts."""
        return tuple(self._core.read(orders.host_names))

    def environment(self) -> dict[str, str]:
        """Return the variables for a program that runs as if in the first VM."""
        return self.vms[0].environment()

    @property
    def api_url(self) -> str:
        """Return the URL of this world's operator API, as FOREWARN_URL takes it.

        It is served from the first time that somebody asks for it.
        """
        if not self._api_url:
            self._api_url = self._core.wait(operators.serve(self._core))
        return self._api_url

    def add_vm(self, name: str, *, host: str = "", spot: bool = False) -> Vm:
        """Add a VM, on a new host unless one is named; it is in the others' scope.

        Raises RefusedError, BadRequestError, and StartError where nothing can listen.
        """
        new = NewVm(name=name, host=host, spot=spot)
        self._core.order(lambda work: fleet_vms.add(work, new))
        try:
            self._core.wait(self._core.open_all())
        except StartError:
            self.remove_vm(name)
            raise
        self._take_vms()
        return self._vms[name]

    def remove_vm(self, name: str) -> None:
        """Take a VM out of the fleet; its address answers 404 from now on."""
        self._core.order(lambda work: fleet_vms.remove(work, name))

    def apply_fleet(self, fleet: str | Path) -> None:
        """Have this fleet instead: VMs come with an address, go and move.

        Raises FleetFileError, and RefusedError for what may not be changed now.
        """
        text = fleet if isinstance(fleet, str) else text_of(fleet)
        wanted = read_fleet(text, name="fleet")
        self._core.order(lambda work: fleet_changes.apply(work, wanted))
        self._core.wait(self._core.open_all())
        self._take_vms()

    def _take_vms(self) -> None:
        core = self._core
        bound = core.call(core.stage.server.addresses)
        for name in core.call(lambda: vms_of(core.engine)):
            if name not in self._vms:
                host, port = bound[name]
                self._vms[name] = Vm(core, name, f"http://{host}:{port}")

    # Time

    @property
    def now(self) -> datetime:
        """Return the time in this world: the machine's, or that of its own clock."""
        return self._core.now()

    def advance(self, by: Length) -> None:
        """Let time pass at once: whatever falls due on the way has happened.

        On the machine's clock, everything pending comes nearer: NotBefore stays
        true, and documents that show it change.
        """
        __tracebackhide__ = True
        micros = micros_of(by)
        self._core.call(lambda: self._core.advance(micros))

    def step(self) -> float:
        """Jump to whatever falls due next; return how many seconds off it was."""
        return self._core.call(self._core.stage.step) / 1_000_000

    def pause(self) -> None:
        """Have nothing fall due until `resume`; requests are answered as ever."""
        self._core.call(self._core.stage.pause)

    def resume(self) -> None:
        """Go on: what is pending is put off by as long as the pause took."""
        self._core.call(self._core.stage.resume)

    # What befalls several at once

    @property
    def events(self) -> list[Event]:
        """Return the events that stand, the oldest first."""
        core = self._core
        found = core.call(lambda: [each.event_id for each in core.live_events()])
        return [Event(core, event_id) for event_id in found]

    def event(self, event_id: str) -> Event:
        """Return an event by its EventId; raises RefusedError for an unknown one."""
        core = self._core
        stored = core.call(lambda: core.event(event_id.upper()))
        return Event(core, stored.event_id)

    def maintain(
        self,
        *hosts: str,
        impact: str,
        duration: Length | None = None,
        description: str | None = None,
        at_once: int | None = None,
    ) -> list[Event]:
        """Maintain hosts, at most `at_once` at a time; return the first hosts' events.

        The other hosts are announced when their turn comes.
        """
        wanted = Wishing(duration=duration, description=description, at_once=at_once)
        action = orders.action_of(impact)
        return self._made(orders.maintain(hosts, action, wanted))

    def terminate(
        self,
        *vms: str,
        notice: Length | None = None,
        description: str | None = None,
    ) -> list[Event]:
        """Delete VMs on one order: one NotBefore, and all together (3.6)."""
        wanted = Wishing(notice=notice, description=description)
        return self._made(orders.terminate(vms, wanted))

    def preempt(
        self,
        *vms: str,
        notice: Length | None = None,
        description: str | None = None,
    ) -> list[Event]:
        """Evict VMs as Spot VMs, which they need not be here (5.6)."""
        wanted = Wishing(notice=notice, description=description)
        return self._made(orders.evict(self._core, vms, wanted))

    evict = preempt
    """The operator's word for it."""

    def stage(
        self,
        *vms: str,
        type: str,  # noqa: A002 - the wire's own word
        notice: Length = 0.0,
        source: str | None = None,
        duration: Length | None = None,
        description: str | None = None,
        migrates: bool = False,
    ) -> list[Event]:
        """Show VMs an event of any type and notice: one for each host and scope."""
        wanted = Wishing(notice=notice, duration=duration, description=description)
        kind = orders.event_type_of(type)
        origin = orders.source_of(source, kind)
        return self._made(orders.staging(kind, origin, vms, wanted, migrates=migrates))

    def fail(self, name: str) -> list[Event]:
        """Have a host or a VM go down without notice (5.5)."""
        return self._made(orders.fail(name))

    def restore(self, name: str) -> None:
        """Have a host or a VM run again: the events of its failure go."""
        self._core.order(orders.restore(name))

    def withhold(self, *vms: str) -> None:
        """Keep approvals of these VMs back; see `Vm.withhold`."""
        for name in vms:
            self.vm(name).withhold()

    def release(self, *vms: str) -> None:
        """Let approvals of these VMs count; see `Vm.release`."""
        for name in vms:
            self.vm(name).release()

    def _made(self, decide: Decide) -> list[Event]:
        core = self._core

        def make() -> list[str]:
            return [event.event_id for event in orders.made(core, decide)]

        return [Event(core, event_id) for event_id in core.call(make)]

    # Scenarios

    def run_scenario(
        self, name: str | Path, *, timeout: Length | None = None
    ) -> Result:
        """Run a scenario to its end on this world's fleet; fail if it fails.

        What the scenario says of fleet, settings and speed does not count: begin the
        world with it where that matters. `timeout`: in real time, usually ten minutes
        more than it takes where nobody approves. Raises NotFoundError or
        ScenarioError.
        """
        __tracebackhide__ = True
        core, scenario = self._core, playing.find_scenario(name)
        return core.wait(playing.run(core, scenario, timeout))

    def wait_for_scenario(self, *, timeout: Length | None = None) -> Result:
        """Wait for the end of the scenario that the world began with.

        Fail if it fails, or is not over in time; `timeout` as for `run_scenario`.
        """
        __tracebackhide__ = True
        return self._core.wait(self._begun().end(timeout))

    def _begun(self) -> Playing:
        if self._playing is None:
            raise RefusedError(
                "this world began without a scenario", hint="scenario='spot-preemption'"
            )
        return self._playing

    @property
    def aio(self) -> "AioScheduledEvents":
        """Return the waits for tests that run on an asyncio loop."""
        if self._aio is None:
            self._aio = AioScheduledEvents(self._core, self._begun)
        return self._aio

    # What was asked

    @property
    def journal(self) -> list[Seen]:
        """Return the requests of all VMs that are remembered, the oldest first."""
        return self._core.call(lambda: self._core.requests([]))

    @property
    def deviations(self) -> list[str]:
        """Return what clients did otherwise than the protocol says, in sentences."""
        return self._core.call(lambda: requests.deviations(self._core))

    def clear_journal(self) -> None:
        """Forget the requests so far."""
        self._core.call(self._core.stage.journal.clear)

    def wait_for_requests(
        self, count: int = 1, *, timeout: Length = REQUEST_SECONDS
    ) -> list[Seen]:
        """Wait for so many more requests of any VM; fail if they do not come."""
        __tracebackhide__ = True
        core = self._core
        return core.wait(requests.visits(core, "", count, seconds_of(timeout)))

    def assert_no_deviations(self, *, but: Collection[str] = ()) -> None:
        """Fail if a client did anything otherwise than the protocol says.

        Rules that are named in `but`, such as `too-often`, do not count.
        """
        __tracebackhide__ = True
        self._core.call(lambda: requests.judge_deviations(self._core, but=but))

    def story(self) -> str:
        """Return the events that stand and the last requests, for a person."""
        return "\n".join(self._core.call(lambda: telling.story(self._core)))


class AioScheduledEvents:
    """The waits of a world for tests on an asyncio loop, which stays free."""

    def __init__(self, core: Core, begun: Callable[[], Playing]) -> None:
        """Wait for what happens in the world of `core`; `begun`: its scenario."""
        self._core = core
        self._begun = begun

    async def wait_for_requests(
        self, count: int = 1, *, timeout: Length = REQUEST_SECONDS
    ) -> list[Seen]:
        """Wait as `ScheduledEvents.wait_for_requests` does."""
        __tracebackhide__ = True
        waiting = requests.visits(self._core, "", count, seconds_of(timeout))
        return await self._core.awaited(waiting)

    async def run_scenario(
        self, name: str | Path, *, timeout: Length | None = None
    ) -> Result:
        """Run a scenario as `ScheduledEvents.run_scenario` does."""
        __tracebackhide__ = True
        scenario = playing.find_scenario(name)
        running = playing.run(self._core, scenario, timeout)
        return await self._core.awaited(running)

    async def wait_for_scenario(self, *, timeout: Length | None = None) -> Result:
        """Wait as `ScheduledEvents.wait_for_scenario` does."""
        __tracebackhide__ = True
        return await self._core.awaited(self._begun().end(timeout))
