"""Replay a recording: serve the same answers, at the same times or faster.

It uses the endpoint and server of the service, so the rules of the protocol apply. The
documents and failures are the recorded ones. Clients cannot change the course of a
recording: approvals are only answered and stored.
"""

import asyncio
import contextlib
import errno
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from http import HTTPStatus
from itertools import accumulate
from pathlib import Path

from forewarn import toml
from forewarn.clock import Clock, SystemClock, VirtualClock
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
from forewarn.protocol.published import Guest, Publication, ViewSnapshot
from forewarn.settings.files import read_file
from forewarn.sim import fleets
from forewarn.sim.deviations import Inspector
from forewarn.sim.front import Front
from forewarn.sim.journal import Journal, JournalEntry
from forewarn.sim.recorded import RecordedDocument, RecordedFaults, Redating
from forewarn.sim.recorded_events import RecordedEvents
from forewarn.sim.recording import (
    Answer,
    Failed,
    Moment,
    Recording,
    RecordingError,
    read_recording,
)

FILE_BYTES_MAX = 256 << 20
"""Maximum size of a recording: some weeks of a busy endpoint. It is kept in memory."""

SPEED_MAX = 1_000_000.0
"""Maximum speed: a year in half a minute."""

SLEEP_SECONDS_MAX = 1.0
"""Maximum sleep of the timer task, because the machine's clock may be set."""

SLOW: Micros = SECOND
"""A first answer that took at least this long was delayed, and is delayed again."""

_VIEW = "recording"

_BLANK = Answer(status=HTTPStatus.OK, headers=(), body=b"")
"""Placeholder for a document before the first recorded one. No VM sees it."""


def load(file: Path) -> Recording:
    """Read a recording from a file; raises RecordingError."""
    try:
        data = read_file(file, bytes_max=FILE_BYTES_MAX)
    except OSError as error:
        part = "Keep the first line of the recording and the lines that you need."
        raise RecordingError(
            f"{file} cannot be read: {error.strerror}",
            hint=part if error.errno == errno.EFBIG else "",
        ) from error
    return read_recording(data, name=str(file))


def vm_names(recording: Recording, vms: int) -> list[str]:
    """Return the names of the served VMs, starting with the recorded VM."""
    own = recording.header.vm
    others = [name for name in fleets.vm_names(vms + 1) if name != own]
    return [own, *others][:vms] if own else others[:vms]


class Replay:
    """A replay on sockets. It is created and used on a running loop.

    It is also the gateway of its endpoint (`ControlGateway`), with nothing to decide.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        clock: Clock | None = None,
        speed: float = 1.0,
        exact: bool = False,
    ) -> None:
        """Prepare the replay, without listening yet.

        Time passes `speed` times as fast. Dates are moved to the present, unless the
        replay is `exact`: then its answers differ only in their Date header.
        """
        assert 0 < speed <= SPEED_MAX, speed
        version = versions.parse(recording.header.api_version)
        assert version is not None, "the reader accepts only known versions"
        self.recording = recording
        self.speed = speed
        self.exact = exact
        self._version = version
        self._clock = clock or SystemClock()
        self._times = tuple(_times(recording.moments))
        first = recording.moments[0]
        # If the beginning of the recording was removed, the rest starts at once.
        self._offset = max(0, first.at - first.took)
        self._next = 0
        self._redating = self._begun()
        self._paused_at: Micros | None = None
        self._shown: Answer | None = None
        """The current document, as recorded."""
        self.events = RecordedEvents(version)
        """The events so far, and their approvals."""
        self._documents = _Documents()
        self.endpoint = Endpoint(waits=Waits(), preparer=self._documents)
        self.journal = Journal()
        """All requests of VMs, including approvals."""
        self.vms: list[str] = []
        """The served VMs, in the order in which they were added."""
        self._asked: set[str] = set()
        self._began_at: Micros = 0
        self.journal.on_seen.append(self._note)
        known = self.endpoint.directory.by_vm.keys()
        self.faults = RecordedFaults(now=self._clock.now, vms=known)
        self.front = Front(
            faults=self.faults,
            journal=self.journal,
            inspector=Inspector(
                route=lambda request: self.endpoint.route(request, signed=False),
                # Without the name of the VM, it is unknown which events name it.
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
        """The timer task. It ends with the recording. After that, the server repeats
        the last answer."""
        self._alarm = asyncio.Event()
        self.on_moment: Callable[[Moment], None] = lambda _moment: None
        """Called with each moment when it is served."""
        self.on_begin: Callable[[], None] = lambda: None
        """Called when the recording starts."""
        self.start_after: Micros = 0  # extra time of the first answer

    async def open(self, vm: str, *, host: str = "127.0.0.1", port: int = 0) -> Address:
        """Listen for a VM; return the address. All VMs get equal answers. Raises OSError."""
        self.add(vm)
        return await self.server.serve_guest(vm, host, port)

    def add(self, vm: str) -> None:
        """Add a VM."""
        self.vms.append(vm)
        guest = Guest(vm=vm, view_id=_VIEW, vm_id=vm, addresses=(), listen="")
        self.endpoint.publish(Publication(guests=(guest,)))

    def start(self, *, wait_seconds: float | None = 0.0) -> None:
        """Start the timer task, which runs the recording.

        The recording starts with the first request of any VM, or after the wait. None
        means an unlimited wait.
        """
        if wait_seconds == 0:
            self.begin()
        else:
            self.await_first()
        loop = asyncio.get_running_loop()
        self.ticker = loop.create_task(self._tick(wait_seconds))

    def await_first(self) -> None:
        """Start with the first request of any VM; `settle` continues."""
        self.faults.on_first = self.begin

    def begin(self) -> None:
        """Start or restart the recording now; `settle` continues."""
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
        """Stop serving, after a grace period for current requests."""
        if self.ticker is not None:
            self.ticker.cancel()
            await asyncio.wait([self.ticker])
        await self.server.stop(grace_seconds=grace_seconds)

    @property
    def has_begun(self) -> bool:
        """Return whether the recording has started."""
        return self.faults.on_first is None and self._next > 0

    @property
    def asked(self) -> Collection[str]:
        """Return the VMs that were answered with their events since the start."""
        for vm in self.vms:
            # A repeated poll triggers no callback, so find it in the journal.
            latest = self.journal.latest(vm)
            if latest is not None and latest.at >= self._began_at:
                self._note(latest)
        return self._asked

    @property
    def now(self) -> Micros:
        """Return the current instant."""
        return self._clock.now()

    @property
    def elapsed(self) -> Micros:
        """Return the elapsed time of the recording."""
        now = self.now if self._paused_at is None else self._paused_at
        return self._offset + round((now - self._redating.now) * self.speed)

    @property
    def is_over(self) -> bool:
        """Return whether the recording has ended, and its last moment was served.

        The timer task can be late, or find both due at once.
        """
        has_more = (
            self._next < len(self._times)
            and self._times[self._next] <= self.recording.length
        )
        return self.elapsed >= self.recording.length and not has_more

    @property
    def next_at(self) -> Micros | None:
        """Return the time of the next moment or of the end; None: it has ended."""
        if self.is_over:
            return None
        due = self.recording.length
        if self._next < len(self._times):
            due = min(due, self._times[self._next])
        return self.now + math.ceil((due - self.elapsed) / self.speed)

    def jump(self, by: Micros) -> None:
        """Let `by` pass at once. If the recording has not started, start it.

        On the machine's clock, moments and NotBefore come nearer by this length.
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
        """Pause the recording until `resume`."""
        if self._paused_at is None:
            self._paused_at = self.now

    def resume(self) -> None:
        """Continue, and postpone all moments by the length of the pause."""
        if self._paused_at is not None:
            paused, self._paused_at = self._paused_at, None
            self._put_off(self.now - paused)
            self._alarm.set()

    def _put_off(self, by: Micros) -> None:
        """Postpone everything by `by`, and serve the current document with a new NotBefore."""
        self._redating = replace(self._redating, now=self._redating.now + by)
        if self._shown is not None and by:
            self._show(self._shown, at=self.now)
            self.server.wake()

    def settle(self) -> None:
        """Serve the recorded moments up to the current time."""
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
            # After a jump, several moments can come together, each with its own time.
            at = self._redating.instant(self.recording.header.started + moment.at)
            self._show(outcome, at=min(at, self.now), ready_at=ready_at)

    def _show(self, recorded: Answer, *, at: Micros, ready_at: Micros = 0) -> None:
        answer = recorded if self.exact else self._redating.answer(recorded)
        self.events.take(answer.body, at=at)
        self._serve(answer, ready_at=ready_at)

    def _note(self, entry: JournalEntry) -> None:
        if entry.is_answered_poll:
            self._asked.add(entry.vm)

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

    # The gateway of the endpoint

    async def enable(self, vm: str) -> None:
        """Do nothing: events are always enabled."""

    async def approve(self, vm: str, event_ids: Sequence[str]) -> str | None:
        """Accept approvals of events that were shown; nothing else changes (clause 3.2)."""
        return self.events.approve(vm, event_ids, at=self.now)

    async def instance(self, vm: str) -> InstanceFacts | None:
        """Return little more than the name, by which a client finds itself in Resources."""
        return _facts(vm)

    async def own_events(self, vm: str) -> OwnEvents | None:  # noqa: ARG002
        """Return None: a recording has no event details."""
        return None

    async def _tick(self, wait_seconds: float | None) -> None:
        if not self.has_begun:
            await self._sleep(wait_seconds)
        if not self.has_begun:
            self.begin()
        while (next_at := self.next_at) is not None:
            await self._sleep(
                min(max((next_at - self.now) / SECOND, 0.0), SLEEP_SECONDS_MAX)
            )
            self.settle()

    async def _sleep(self, seconds: float | None) -> None:
        """Sleep until the time is changed, at most for `seconds`; None: no limit."""
        self._alarm.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._alarm.wait(), seconds)


class _Documents(Preparer):
    """A source of recorded documents for the endpoint, by their number."""

    def __init__(self) -> None:
        super().__init__()
        self._last: RecordedDocument | None = None
        self._count = 0

    def put(self, answer: Answer, *, version: versions.ApiVersion) -> int:
        """Store the next document; return its number."""
        self._count += 1
        self._last = RecordedDocument(self._count, answer, version=version)
        return self._count

    def prepare(self, snapshot: ViewSnapshot) -> PreparedDocument:
        """Return the document of `snapshot`."""
        assert self._last is not None, "`put` is called before the publication"
        assert self._last.incarnation == snapshot.incarnation, (
            "only the latest document is kept"
        )
        return self._last


def _facts(vm: str) -> InstanceFacts | None:
    try:
        fleet = read_fleet(
            f'[[host]]\nname = "host"\n[[vm]]\nhost = "host"\nname = {toml.text(vm)}\n',
            name="the VM",
        )
    except FleetFileError:
        # The name is not valid for a VM of a fleet.
        return None
    return InstanceFacts(
        vm=fleet.vms[vm],
        scope=fleet.scopes[fleet.vms[vm].scope],
        host=fleet.hosts["host"],
    )


def _times(moments: Sequence[Moment]) -> list[Micros]:
    """Return the time from which each moment is served.

    A failure starts with the request that met it. An answer starts when it was received.
    """
    began = (
        moment.at - moment.took if isinstance(moment.outcome, Failed) else moment.at
        for moment in moments
    )
    return [*accumulate(began, max, initial=0)][1:]
