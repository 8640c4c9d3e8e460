"""Serves a recording again: the same answers, at the same times or faster.

It is the service's own endpoint and server, so the rules of the wire hold as ever;
only the documents are the recorded ones, and what failed then fails now. Nothing
that a client does changes what comes: approvals are answered and noted.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path

from forewarn.clock import Clock, SystemClock
from forewarn.control.messages import Guest, Publication, ViewSnapshot
from forewarn.fleet.file import read_fleet
from forewarn.fleet.instance import InstanceFacts
from forewarn.fleet.problems import FleetFileError
from forewarn.instants import SECOND, Micros
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.http import Request, Response
from forewarn.metadata.prepared import PreparedDocument, Preparer
from forewarn.metadata.server import Address, Server
from forewarn.metadata.waiting import Waits
from forewarn.protocol import versions
from forewarn.protocol.own_events import OwnEvents
from forewarn.sim.deviations import Inspector
from forewarn.sim.faults.fault import Fault, Where
from forewarn.sim.faults.player import FaultPlan, Player
from forewarn.sim.front import Front
from forewarn.sim.journal import Journal
from forewarn.sim.recorded import RecordedDocument, Redating, event_ids
from forewarn.sim.recording import Answer, Failed, Failure, Moment, Recording
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

_GARBAGE = Response(
    status=HTTPStatus.OK,
    payload=b"this is no answer of HTTP\r\n\r\n",
    close=True,
    takes_date=False,
)

_DOCUMENT_STATUSES = frozenset({HTTPStatus.OK, HTTPStatus.NOT_MODIFIED})
"""What the endpoint says to who asks properly."""

_FAULTS: Mapping[Failure, Fault] = {
    Failure.REFUSED: Fault(kind="refuse", where=Where.ALL),
    Failure.UNREACHABLE: Fault(kind="refuse", where=Where.ALL),
    Failure.RESET: Fault(kind="reset", size=0, where=Where.ALL),
    Failure.TIMEOUT: Fault(kind="timeout", where=Where.ALL),
    Failure.STRANGE: Fault(kind="replace", where=Where.ALL),
}
_STATUS = Fault(kind="replace")


def load(file: Path) -> Recording:
    """Read a recording from a file; raises RecordingError."""
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise RecordingError(
                f"{file} has more than {FILE_BYTES_MAX} bytes",
                hint="keep its first line and the part that you need",
            )
        data = file.read_bytes()
    except OSError as error:
        raise RecordingError(f"{file} cannot be read: {error.strerror}") from error
    return read_recording(data, name=str(file))


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
        self._documents = _Documents()
        self.endpoint = Endpoint(waits=Waits(), preparer=self._documents)
        self.journal = Journal()
        """Every request that VMs have sent; approvals too."""
        self.faults = RecordedFaults(
            now=self._clock.now, vms=self.endpoint.directory.by_vm.keys()
        )
        self.desk = _Desk()
        self.front = Front(
            faults=self.faults,
            journal=self.journal,
            inspector=Inspector(
                route=lambda request: self.endpoint.route(request, signed=False),
                event=lambda _event_id: None,
            ),
            now=self._clock.now,
        )
        self.server = Server(
            endpoint=self.endpoint,
            desk=self.desk,
            clock=self._clock,
            interposer=self.front,
        )
        self._ticker: asyncio.Task[None] | None = None
        self._begins = asyncio.Event()
        self.on_moment: Callable[[Moment], None] = lambda _moment: None
        """Told of each moment when it is served."""

    async def open(self, vm: str, *, host: str = "127.0.0.1", port: int = 0) -> Address:
        """Listen for a VM; return where. Raises OSError. All VMs are served alike."""
        self.add(vm)
        return await self.server.serve_guest(vm, host, port)

    def add(self, vm: str) -> None:
        """Know a VM."""
        guest = Guest(vm=vm, view_id=_VIEW, vm_id=vm, addresses=(), listen="")
        self.endpoint.publish(Publication(guests=(guest,)))

    def start(self, *, wait_seconds: float = 0.0) -> None:
        """Begin the recording, and have it go on by itself.

        It begins with the first request of any VM, or when the wait is over.
        """
        if wait_seconds:
            self.faults.on_first = self.begin
        else:
            self.begin()
        loop = asyncio.get_running_loop()
        self._ticker = loop.create_task(self._tick(wait_seconds))

    def begin(self) -> None:
        """Begin the recording now; `settle` goes on."""
        self._redating = self._begun()
        self._next = 0
        self.faults.on_first = None
        self.faults.recorded = None
        self._serve(_BLANK)
        self.settle()
        self._begins.set()

    async def stop(self, *, grace_seconds: float = 0.0) -> None:
        """Stop serving; requests under way have the grace."""
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.wait([self._ticker])
        await self.server.stop(grace_seconds=grace_seconds)

    @property
    def ticker(self) -> asyncio.Task[None] | None:
        """Return what runs the timers; it ends with the recording.

        The last answer stays, until `stop` or another `start`.
        """
        return self._ticker

    @property
    def elapsed(self) -> Micros:
        """Return how much of the recording has passed."""
        passed = self._clock.now() - self._redating.now
        return self._offset + round(passed * self.speed)

    @property
    def is_over(self) -> bool:
        """Tell whether the end of the recording has come."""
        return self.elapsed >= self.recording.length

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
            answer = outcome if self.exact else self._redating.answer(outcome)
            self.desk.known |= event_ids(answer.body)
            self._serve(answer, ready_at=ready_at)

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

    async def _tick(self, wait_seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._begins.wait(), wait_seconds or None)
        if not self._begins.is_set():
            self.begin()
        while not self.is_over:
            due = self.recording.length
            if self._next < len(self._times):
                due = min(due, self._times[self._next])
            seconds = (due - self.elapsed) / self.speed / SECOND
            await asyncio.sleep(min(max(seconds, 0.0), SLEEP_SECONDS_MAX))
            self.settle()


class RecordedFaults(Player):
    """Plays what failed in a recording, after what somebody sets by hand."""

    _recorded: Answer | Failed | None = None
    _on_first: Callable[[], None] | None = None

    @property
    def recorded(self) -> Answer | Failed | None:
        """What is answered now in the place of a document; None: nothing fails."""
        return self._recorded

    @recorded.setter
    def recorded(self, outcome: Answer | Failed | None) -> None:
        self._recorded = outcome
        self._look()

    @property
    def on_first(self) -> Callable[[], None] | None:
        """Called by the next request, or new connection, before all is decided."""
        return self._on_first

    @on_first.setter
    def on_first(self, act: Callable[[], None] | None) -> None:
        self._on_first = act
        self._look()

    def _finds_nothing(self) -> bool:
        is_free = self._recorded is None and self._on_first is None
        return is_free and super()._finds_nothing()

    def connect(self, vm: str) -> Fault | None:
        """Return the fault that a new connection meets."""
        if self.on_first is not None:
            self.on_first()
        set_by_hand = super().connect(vm)
        if set_by_hand is None and isinstance(self.recorded, Failed):
            fault = _FAULTS[self.recorded.failure]
            return fault if fault.kind == "refuse" else None
        return set_by_hand

    def take(self, vm: str, request: Request) -> FaultPlan | None:
        """Return what befalls a request; None: nothing."""
        if self.on_first is not None:
            self.on_first()
        set_by_hand = super().take(vm, request)
        recorded = self.recorded
        if set_by_hand is not None or recorded is None or not vm:
            return set_by_hand
        if isinstance(recorded, Failed):
            fault = _FAULTS[recorded.failure]
            cut_after = 0 if fault.kind in {"refuse", "reset"} else None
            return FaultPlan(fault=fault, arrives=False, cut_after=cut_after)
        if request.method == "GET" and Where.EVENTS.has(request.path):
            return FaultPlan(fault=_STATUS, in_full=True)
        if recorded.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # A service that is down takes no approvals either.
            return FaultPlan(fault=_STATUS, arrives=False)
        return None

    def answer(
        self,
        vm: str,
        request: Request,
        plan: FaultPlan | None,
        genuine: Response | None,
    ) -> Response | None:
        """Return what is sent; see Interposer.answer."""
        recorded = self.recorded
        if plan is not None and plan.fault is _FAULTS[Failure.STRANGE]:
            return _GARBAGE
        if (
            plan is None
            or plan.fault is not _STATUS
            or not isinstance(recorded, Answer)
        ):
            return super().answer(vm, request, plan, genuine)
        if genuine is not None and genuine.status not in _DOCUMENT_STATUSES:
            # Who asks wrongly is told so.
            return genuine
        return recorded.response()


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


class _Desk:
    """Control of a replay: there is nothing to decide (metadata.desk.Desk)."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        """The events that a document has shown so far."""

    async def enable(self, vm: str) -> None:
        """Do nothing: a recording is always enabled."""

    async def approve(self, vm: str, event_ids: Sequence[str]) -> str | None:  # noqa: ARG002
        """Accept what was shown; it changes nothing (clause 3.2)."""
        for event_id in event_ids:
            if event_id not in self.known:
                return f"EventId {event_id} is not in this VM's document"
        return None

    async def instance(self, vm: str) -> InstanceFacts | None:
        """Return little more than its name, by which it finds itself in Resources."""
        return _facts(vm)

    async def own_events(self, vm: str) -> OwnEvents | None:  # noqa: ARG002
        """Return None, as above."""
        return None


def _facts(vm: str) -> InstanceFacts | None:
    try:
        fleet = read_fleet(
            '[[host]]\nname = "host"\n[[vm]]\nhost = "host"\n'
            f"name = {json.dumps(vm)}\n",
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
