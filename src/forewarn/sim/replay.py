"""Serves a recording again: the same answers, at the same times or faster.

It is the service's own endpoint and server, so the rules of the wire hold as ever;
only the documents are the recorded ones, and what failed then fails now. Nothing
that a client does changes what comes: approvals are answered and noted.
"""

import asyncio
import contextlib
import errno
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

from forewarn import toml
from forewarn.clock import Clock, SystemClock, VirtualClock
from forewarn.control.transactions.messages import Guest, Publication, ViewSnapshot
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import read_fleet
from forewarn.fleet.instance import InstanceFacts
from forewarn.instants import SECOND, Micros
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.prepared import PreparedDocument, Preparer
from forewarn.metadata.server import Address, Server
from forewarn.metadata.waiting import Waits
from forewarn.protocol import versions
from forewarn.protocol.own_events import OwnEvents
from forewarn.settings.files import read_file
from forewarn.sim import fleets
from forewarn.sim.deviations import Inspector
from forewarn.sim.front import Front
from forewarn.sim.journal import Journal, Seen
from forewarn.sim.recorded import RecordedDocument, RecordedFaults, Redating
from forewarn.sim.recorded_events import RecordedEvents
from forewarn.sim.recording import Answer, Failed, Moment, Recording
from forewarn.sim.recording_reader import RecordingError, read_recording

FILE_BYTES_MAX = 256 << 20
"""Of a recording: some weeks of a busy endpoint. All of it is held in memory."""

SPEED_MAX = 1_000_000.0
"""A year in half a minute."""

SLEEP_SECONDS_MAX = 1.0
"""How long the ticker sleeps at most: the machine's clock may be set."""

SLOW: Micros = SECOND
"""A first answer that took longer was held back, and is held back again."""

_VIEW = "recording"

_BLANK = Answer(status=HTTPStatus.OK, headers=(), body=b"")
"""In the place of a document while there was none yet; nobody is shown it."""


def load(file: Path) -> Recording:
    """Read a recording from a file; raises RecordingError."""
    try:
        data = read_file(file, most=FILE_BYTES_MAX)
    except OSError as error:
        part = "of a long recording, keep its first line and the part that you need"
        raise RecordingError(
            f"{file} cannot be read: {error.strerror}",
            hint=part if error.errno == errno.EFBIG else "",
        ) from error
    return read_recording(data, name=str(file))


def vm_names(recording: Recording, vms: int) -> list[str]:
    """Return the names of VMs that are served: first the one that was recorded."""
    own = recording.header.vm
    others = [name for name in fleets.vm_names(vms + 1) if name != own]
    return [own, *others][:vms] if own else others[:vms]


class Replay:
    """One recording on sockets. It is made and used on a running loop."""

    def __init__(
        self,
        recording: Recording,
        *,
        clock: Clock | None = None,
        speed: float = 1.0,
        exact: bool = False,
    ) -> None:
        """Be ready; listen nowhere yet.

        Time goes `speed` times as fast. Dates are brought to the present unless
        the replay is `exact`, whose answers differ only in their Date header.
        """
        assert 0 < speed <= SPEED_MAX, speed
        version = versions.parse(recording.header.api_version)
        assert version is not None, "the reader takes known versions only"
        self.recording = recording
        self.speed = speed
        self.exact = exact
        self._version = version
        self._clock = clock or SystemClock()
        self._times = tuple(_times(recording.moments))
        first = recording.moments[0]
        # Of a recording whose beginning was cut off, what is left begins at once.
        self._offset = max(0, first.at - first.took)
        self._next = 0
        self._redating = self._begun()
        self._paused_at: Micros | None = None
        self._shown: Answer | None = None
        """The document that is served, as it was recorded."""
        self.events = RecordedEvents(version)
        """What has been shown so far, and approved."""
        self._documents = _Documents()
        self.endpoint = Endpoint(waits=Waits(), preparer=self._documents)
        self.journal = Journal()
        """Every request that VMs have sent; approvals too."""
        self.vms: list[str] = []
        """Those that are served, in the order in which they came."""
        self._asked: set[str] = set()
        self._began_at: Micros = 0
        self.journal.on_seen.append(self._note)
        self.faults = RecordedFaults(
            now=self._clock.now, vms=self.endpoint.directory.by_vm.keys()
        )
        self.front = Front(
            faults=self.faults,
            journal=self.journal,
            inspector=Inspector(
                route=lambda request: self.endpoint.route(request, signed=False),
                # Without the VM's own name, nobody knows which events name it.
                event=lambda event_id: (
                    self.events.find(event_id) if recording.header.vm else None
                ),
            ),
            now=self._clock.now,
        )
        self.server = Server(
            endpoint=self.endpoint,
            gateway=self,
            clock=self._clock,
            interceptor=self.front,
        )
        self.ticker: asyncio.Task[None] | None = None
        """Runs the timers, and ends with the recording; the last answer stays."""
        self._alarm = asyncio.Event()
        self.on_moment: Callable[[Moment], None] = lambda _moment: None
        """Told of each moment when it is served."""
        self.on_begin: Callable[[], None] = lambda: None
        """Told when the recording begins."""
        self.start_after: Micros = 0  # how much longer the first answer stands

    async def open(self, vm: str, *, host: str = "127.0.0.1", port: int = 0) -> Address:
        """Listen for a VM; return where. Raises OSError. All VMs are served alike."""
        self.add(vm)
        return await self.server.serve_guest(vm, host, port)

    def add(self, vm: str) -> None:
        """Know a VM."""
        self.vms.append(vm)
        guest = Guest(vm=vm, view_id=_VIEW, vm_id=vm, addresses=(), listen="")
        self.endpoint.publish(Publication(guests=(guest,)))

    def start(self, *, wait_seconds: float | None = 0.0) -> None:
        """Begin the recording, and have it go on by itself.

        It begins with the first request of any VM, or when the wait is over; None is
        as long as it takes.
        """
        if wait_seconds == 0:
            self.begin()
        else:
            self.await_first()
        loop = asyncio.get_running_loop()
        self.ticker = loop.create_task(self._tick(wait_seconds))

    def await_first(self) -> None:
        """Begin with the first request of any VM; `settle` goes on."""
        self.faults.on_first = self.begin

    def begin(self) -> None:
        """Begin the recording now, or anew; `settle` goes on."""
        self._redating = self._begun()
        if self._paused_at is not None:
            self._paused_at = self.now
        self._next = 0
        self._asked = set()
        self._began_at = self.now
        self.events = RecordedEvents(self._version)
        self.faults.on_first = None
        self.faults.recorded = None
        self._shown = None
        self._serve(_BLANK)
        self.settle()
        if self.start_after:
            self._put_off(self.start_after)
        self._alarm.set()
        self.on_begin()

    async def stop(self, *, grace_seconds: float = 0.0) -> None:
        """Stop serving; requests under way have the grace."""
        if self.ticker is not None:
            self.ticker.cancel()
            await asyncio.wait([self.ticker])
        await self.server.stop(grace_seconds=grace_seconds)

    @property
    def has_begun(self) -> bool:
        """Tell whether it waits for no first request."""
        return self.faults.on_first is None and self._next > 0

    @property
    def asked(self) -> Collection[str]:
        """Return the VMs that were answered with their events since it began."""
        for vm in self.vms:
            # A poll that repeats the one before is noted by the journal alone.
            latest = self.journal.latest(vm)
            if latest is not None and latest.at >= self._began_at:
                self._note(latest)
        return self._asked

    @property
    def now(self) -> Micros:
        """Return the present instant."""
        return self._clock.now()

    @property
    def elapsed(self) -> Micros:
        """Return how much of the recording has passed."""
        now = self.now if self._paused_at is None else self._paused_at
        return self._offset + round((now - self._redating.now) * self.speed)

    @property
    def is_over(self) -> bool:
        """Tell whether the end of the recording has come."""
        return self.elapsed >= self.recording.length

    @property
    def next_at(self) -> Micros | None:
        """Return when the next moment, or the end, comes; None: all is over."""
        if self.is_over:
            return None
        due = self.recording.length
        if self._next < len(self._times):
            due = min(due, self._times[self._next])
        return self.now + math.ceil((due - self.elapsed) / self.speed)

    def leap(self, by: Micros) -> None:
        """Let `by` pass at once; it begins the recording, if nobody has asked yet.

        On the machine's clock, moments come nearer by it, and NotBefore with them.
        """
        if not self.has_begun:
            self.begin()
        if isinstance(self._clock, VirtualClock):
            self._clock.advance_to(self.now + by)
        else:
            self._put_off(-by)
        self.settle()
        self._alarm.set()

    def pause(self) -> None:
        """Have nothing new come until `resume`."""
        if self._paused_at is None:
            self._paused_at = self.now

    def resume(self) -> None:
        """Go on: what is to come is put off by as long as the pause took."""
        if self._paused_at is not None:
            paused, self._paused_at = self._paused_at, None
            self._put_off(self.now - paused)
            self._alarm.set()

    def _put_off(self, by: Micros) -> None:
        """Have everything come later by `by`, and tell the present NotBefore anew."""
        self._redating = replace(self._redating, now=self._redating.now + by)
        if self._shown is not None and by:
            self._show(self._shown, at=self.now)
            self.server.wake()

    def settle(self) -> None:
        """Serve what the present instant has."""
        elapsed = self.elapsed
        has_news = False
        while self._next < len(self._times) and (
            self._next == 0 or self._times[self._next] <= elapsed
        ):
            moment = self.recording.moments[self._next]
            self._take(moment)
            self._next += 1
            has_news = True
            self.on_moment(moment)
        if has_news:
            self.server.wake()

    def _begun(self) -> Redating:
        return Redating(
            then=self.recording.header.started + self._offset,
            now=self._clock.now(),
            speed=self.speed,
        )

    def _take(self, moment: Moment) -> None:
        outcome = moment.outcome
        if isinstance(outcome, Failed) or outcome.status != HTTPStatus.OK:
            self.faults.recorded = outcome
        else:
            self.faults.recorded = None
            ready_at = 0
            if self._next == 0 and moment.took >= SLOW:
                then = self.recording.header.started + moment.at
                ready_at = self._redating.instant(then)
            self._shown = outcome
            # Several may come together after a leap, each at its own time.
            at = self._redating.instant(self.recording.header.started + moment.at)
            self._show(outcome, at=min(at, self.now), ready_at=ready_at)

    def _show(self, recorded: Answer, *, at: Micros, ready_at: Micros = 0) -> None:
        answer = recorded if self.exact else self._redating.answer(recorded)
        self.events.take(answer.body, at=at)
        self._serve(answer, ready_at=ready_at)

    def _note(self, seen: Seen) -> None:
        if seen.is_answered_poll:
            self._asked.add(seen.vm)

    def _serve(self, answer: Answer, *, ready_at: Micros = 0) -> None:
        number = self._documents.put(answer, version=self._version)
        self.endpoint.publish(
            Publication(
                views=(
                    ViewSnapshot(
                        view_id=_VIEW,
                        enabling=_VIEW,
                        enabled=True,
                        epoch=1,
                        incarnation=number,
                        ready_at=ready_at,
                        events=(),
                    ),
                )
            )
        )

    # As the gateway of the endpoint: there is nothing to decide (ControlGateway)

    async def enable(self, vm: str) -> None:
        """Do nothing: a recording is always enabled."""

    async def approve(self, vm: str, event_ids: Sequence[str]) -> str | None:
        """Accept what was shown; it changes nothing that comes (clause 3.2)."""
        return self.events.approve(vm, event_ids, at=self.now)

    async def instance(self, vm: str) -> InstanceFacts | None:
        """Return little more than its name, by which it finds itself in Resources."""
        return _facts(vm)

    async def own_events(self, vm: str) -> OwnEvents | None:  # noqa: ARG002
        """Return None, as above."""
        return None

    async def _tick(self, wait_seconds: float | None) -> None:
        if not self.has_begun:
            await self._sleep(wait_seconds)
        if not self.has_begun:
            self.begin()
        while (next_at := self.next_at) is not None:
            seconds = max((next_at - self.now) / SECOND, 0.0)
            await self._sleep(min(seconds, SLEEP_SECONDS_MAX))
            self.settle()

    async def _sleep(self, seconds: float | None) -> None:
        """Sleep, at most until somebody turns the time; None: until then."""
        self._alarm.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._alarm.wait(), seconds)


class _Documents(Preparer):
    """Gives the endpoint recorded documents by their number."""

    def __init__(self) -> None:
        super().__init__()
        self._last: RecordedDocument | None = None
        self._count = 0

    def put(self, answer: Answer, *, version: versions.ApiVersion) -> int:
        """Keep what is served next; return its number."""
        self._count += 1
        self._last = RecordedDocument(self._count, answer, version=version)
        return self._count

    def prepare(self, snapshot: ViewSnapshot) -> PreparedDocument:
        """Return the document that `snapshot` is about."""
        assert self._last is not None, "it was put before it was published"
        assert self._last.incarnation == snapshot.incarnation, "one at a time"
        return self._last


def _facts(vm: str) -> InstanceFacts | None:
    try:
        fleet = read_fleet(
            f'[[host]]\nname = "host"\n[[vm]]\nhost = "host"\nname = {toml.text(vm)}\n',
            name="the VM",
        )
    except FleetFileError:
        # A name that no VM of a fleet can have.
        return None
    return InstanceFacts(
        vm=fleet.vms[vm],
        scope=fleet.scopes[fleet.vms[vm].scope],
        host=fleet.hosts["host"],
    )


def _times(moments: Sequence[Moment]) -> list[Micros]:
    """Return from when each moment is served.

    A failure began when the request was sent that met it; an answer was there when
    it came.
    """
    times: list[Micros] = []
    last = 0
    for moment in moments:
        began = isinstance(moment.outcome, Failed)
        last = max(last, moment.at - moment.took if began else moment.at)
        times.append(last)
    return times
