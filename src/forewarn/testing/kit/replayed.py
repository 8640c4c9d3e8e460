"""A world that replays a recording: clients cannot change its events."""

import asyncio
from pathlib import Path

from forewarn.clock import Clock, SystemClock, VirtualClock
from forewarn.instants import SECOND, Micros
from forewarn.metadata.http import Request
from forewarn.metadata.identity import Source
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import Event as StoredEvent
from forewarn.sim import fleets
from forewarn.sim.engine import START
from forewarn.sim.loop import LoopThread
from forewarn.sim.recording import Recording
from forewarn.sim.replay import SPEED_MAX, Replay, load, vm_names
from forewarn.sim.replay_judging import Facts, findings
from forewarn.sim.scenario.model import Expected
from forewarn.testing.kit import failure_report
from forewarn.testing.kit.core import AnyCore
from forewarn.testing.kit.durations import REPLAY_SECONDS, Length, seconds_of
from forewarn.testing.kit.ending import Ending
from forewarn.testing.kit.files import check_name
from forewarn.testing.kit.setup import Wanted, listening

__tracebackhide__ = True
"""pytest shows the line of the test that failed, and no line of this module."""

VMS = 1
"""Default number of VMs of a replay: a recording is made in one VM."""


HINT = "Give the client its VM's address, or use expect='asked' or 'none'."


def recording_of(wanted: Wanted) -> Recording:
    """Return the recording to replay.

    Raises RefusedError for options that a replay cannot have, and RecordingError.
    """
    for name in (
        "together",
        "fleet",
        "settings",
        "enabled",
        "seed",
        "scenario",
        "names",
    ):
        value = getattr(wanted, name)
        if value not in (None, "", {}, ()) and value is not False:
            raise RefusedError(
                f"{name} cannot be combined with replay", hint="Remove one of them."
            )
    if wanted.profile == "real":
        raise RefusedError(
            "the profile real cannot be combined with replay",
            hint="Use another profile: a recording has its own delays and 429 answers.",
        )
    if wanted.vms is not None and not 1 <= wanted.vms <= fleets.VMS_MAX:
        raise RefusedError(f"a world has 1 to {fleets.VMS_MAX} VMs, not {wanted.vms}")
    if wanted.speed is not None and wanted.speed > SPEED_MAX:
        raise RefusedError(f"speed must be at most {SPEED_MAX:g}, not {wanted.speed:g}")
    file = Path(wanted.replay)
    check_name(file)
    return load(file)


class ReplayCore(AnyCore):
    """A replay on the shared loop."""

    def __init__(
        self, loop: LoopThread, replay: Replay, clock: Clock, expected: Expected
    ) -> None:
        """Use `replay`, which runs on `loop` by `clock`. Call it on that loop.

        `expected`: the expectations about clients at the end.
        """
        super().__init__(loop, replay, ending=Ending(replay.stop))
        self.replay = replay
        self.expected = expected
        self._clock = clock
        self._jumps: list[tuple[Micros, Micros, frozenset[str]]] = []
        """For each `advance` on the machine's clock: the time, the length, and the
        events that existed. Later events already have the new time."""
        ring = self.bell.ring
        replay.on_moment = lambda _moment: ring()
        if isinstance(clock, VirtualClock):
            replay.await_first()
            return
        replay.start(wait_seconds=None)
        assert replay.ticker is not None, "it was started"
        replay.ticker.add_done_callback(lambda _ticker: ring())

    @classmethod
    def begin(cls, loop: LoopThread, wanted: Wanted) -> "ReplayCore":
        """Begin a new world; raises the errors of `recording_of`, and StartError."""
        recording = recording_of(wanted)
        vms = vm_names(recording, wanted.vms or VMS)
        is_virtual = wanted.clock == "virtual"

        async def begun() -> ReplayCore:
            clock = VirtualClock(START) if is_virtual else SystemClock()
            replay = Replay(recording, clock=clock, speed=wanted.speed or 1.0)
            try:
                for vm in vms:
                    with listening(vm):
                        await replay.open(vm)
            except BaseException:
                await replay.stop()
                raise
            return cls(loop, replay, clock, Expected(wanted.expect))

        return loop.wait(begun())

    @property
    def has_own_time(self) -> bool:
        """Return whether the clock is virtual, so that only a test advances it."""
        return isinstance(self._clock, VirtualClock)

    @property
    def seconds_left(self) -> float:
        """Return the length of the rest of the recording; call it on the loop."""
        replay = self.replay
        return max(replay.recording.length - replay.elapsed, 0) / replay.speed / SECOND

    # Implementation of AnyCore
    @property
    def instant(self) -> Micros:
        """Return the world's time as an instant."""
        return self._clock.now()

    def find_event(self, event_id: str) -> StoredEvent | None:
        """Return an event by its ID if it was shown; call it on the loop."""
        return self.replay.events.find(event_id)

    def live_events(self) -> list[StoredEvent]:
        """Return the current events, the oldest first; call it on the loop."""
        return [*self.replay.events.live]

    def reasons(self, operation_id: str) -> list[str]:  # noqa: ARG002 - as the others
        """Return no reasons: a replay does not wait for anything."""
        return []

    def kept_back(self, event_id: str) -> tuple[str, Micros]:  # noqa: ARG002 - the same
        """Return no approval: a replay cannot withhold approvals."""
        return "", 0

    def jumped(self, event: StoredEvent, until: Micros) -> Micros:
        """Return the time that `advance` skipped between an event and `until`."""
        return sum(
            by
            for at, by, there in self._jumps
            if event.event_id in there and at <= until
        )

    def glance(self, vm: str, request: Request) -> object:
        """Return the immediate answer to a VM, on the loop, without recording it."""
        return self.replay.endpoint.handle(
            request,
            Source(address="", vm=vm),
            now=self._clock.now(),
            monotonic=self._clock.monotonic(),
        )

    def advance(self, by: Micros) -> None:
        """Advance the time at once, on the loop; see `Replay.jump`."""
        if not self.has_own_time:
            there = frozenset(event.event_id for event in self.replay.events.all)
            self._jumps.append((self.instant, by, there))
        self.replay.jump(by)
        self.bell.ring()

    def step(self) -> Micros:
        """Advance the time to the next moment, on the loop; return by how much."""
        if not self.replay.has_begun:
            self.advance(0)
            return 0
        due = self.replay.next_at
        if due is None:
            return 0
        far = max(due - self.instant, 0)
        self.advance(far)
        return far


def replaying(core: AnyCore) -> ReplayCore:
    """Return the core of a replay; raises RefusedError for any other world."""
    if not isinstance(core, ReplayCore):
        raise RefusedError(
            "this world does not replay a recording",
            hint="Begin a world with replay='maintenance.jsonl'.",
        )
    return core


async def over(core: ReplayCore, timeout: Length | None) -> list[str]:
    """Wait for the end of the recording, on the loop; return the IDs of its events."""
    replay, loop = core.replay, asyncio.get_running_loop()
    if core.has_own_time and not replay.is_over:
        raise RefusedError(
            "the clock of this world stands still, and so does the recording",
            hint="Use `advance` or `step`, or begin the world with clock='machine'.",
        )
    seconds = REPLAY_SECONDS if timeout is None else seconds_of(timeout)
    ends = loop.time() + seconds
    if not await core.until(lambda: replay.has_begun or None, seconds=seconds):
        sentence = f"no client polled within {seconds:g} s, so the replay did not begin"
        raise failure_report.failure(core, sentence, vms=[])
    if timeout is None:
        seconds = core.seconds_left + REPLAY_SECONDS
        ends = loop.time() + seconds
    if not await core.until(
        lambda: replay.is_over or None, seconds=max(ends - loop.time(), 0.0)
    ):
        sentence = f"the recording did not end within {seconds:g} s"
        raise failure_report.failure(core, sentence, vms=[])
    return [event.event_id for event in replay.events.all]


def judge(core: ReplayCore) -> None:
    """Raise NotSeenError for unmet expectations about clients; call it on the loop."""
    replay = core.replay
    facts = Facts(
        recording=replay.recording,
        events=replay.events.all,
        vms=replay.vms,
        asked=replay.asked,
        is_over=True,
    )
    failed = [finding for finding in findings(facts, core.expected) if finding.failed]
    if failed:
        lines = [f"  {finding.sentence}" for finding in failed]
        sentence = "\n".join(["clients did not meet the recording:", *lines])
        raise failure_report.failure(core, f"{sentence}\n  {HINT}", vms=[])
