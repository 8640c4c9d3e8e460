"""A recording of our own endpoint replays byte-equal, whatever happened.

Random stories of a fleet on a virtual clock are recorded by the real recorder, and
replayed on another one. Every poll that was made gets the same bytes again.
"""

import contextlib
from typing import TypeAlias

import hypothesis
import hypothesis.strategies as st

from forewarn.clock import VirtualClock
from forewarn.control.requests import verbs
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import SECOND
from forewarn.metadata.http import Request, Response
from forewarn.metadata.identity import Source
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.events import EventSource, EventType
from forewarn.protocol.notes import Said
from forewarn.protocol.versions import NEWEST, VERSIONS, ApiVersion
from forewarn.sim import fleets, staged
from forewarn.sim.recorded import as_older
from forewarn.sim.recording import Answer, Header, Outcome, read_recording
from forewarn.sim.replay import Replay
from forewarn.sim.staged import Staged
from forewarn.store.memory import MemoryStore
from forewarn.testing.recorder import Recorder
from tests.support.loops import in_loop
from tests.support.worlds import METADATA, START, World

PATH = "/metadata/scheduledevents"
VM = "web_0"

Story: TypeAlias = list[tuple[str, EventType, int]]

steps: st.SearchStrategy[Story] = st.lists(
    st.one_of(
        st.tuples(st.just("stage"), st.sampled_from(EventType), st.integers(0, 900)),
        st.tuples(st.just("approve"), st.just(EventType.FREEZE), st.just(0)),
        st.tuples(st.just("cancel"), st.just(EventType.FREEZE), st.just(0)),
        st.tuples(st.just("wait"), st.just(EventType.FREEZE), st.integers(1, 900)),
        st.tuples(st.just("quiet"), st.just(EventType.FREEZE), st.integers(1, 90_000)),
    ),
    max_size=12,
)


def asked(etag: str | None, version: str) -> Request:
    headers = dict(METADATA)
    if etag is not None:
        headers["if-none-match"] = (etag,)
    return Request("GET", PATH, f"api-version={version}", headers)


def taken_apart(payload: bytes) -> Answer:
    head, _, body = payload.partition(b"\r\n\r\n")
    status, *lines = head.decode("ascii").split("\r\n")
    pairs = [line.split(": ", 1) for line in lines]
    return Answer(
        status=int(status.split()[1]),
        headers=tuple((name, value) for name, value in pairs),
        body=body,
    )


class Taped:
    """A world, its recorder, and every answer that was given with its moment."""

    def __init__(self, version: ApiVersion) -> None:
        self.version = version.name
        driver, store = SimulatedDriver(), MemoryStore()
        self.world = World(
            store=lambda: store, driver=driver, fleet=fleets.fleet_text()
        )
        self.lines: list[str] = []
        self.given: list[tuple[int, str | None, bytes]] = []
        self.recorder = Recorder(
            self,
            clock=self.world.clock,
            write=self.lines.append,
            header=Header(api_version=version.name, started=START, poll=SECOND),
        )

    def ask(self, *, etag: str | None, timeout_seconds: float) -> Outcome:
        world = self.world
        answer = world.endpoint.handle(
            asked(etag, self.version),
            Source(address="", vm=VM),
            now=world.now,
            monotonic=world.clock.monotonic(),
        )
        if not isinstance(answer, Response):
            world.vm(VM).get(self.version)
            return self.ask(etag=etag, timeout_seconds=timeout_seconds)
        self.given.append((world.now, etag, answer.payload))
        return taken_apart(answer.payload)

    def play(self, story: Story) -> None:
        for step in story:
            # Steps that the fleet does not allow now are left out.
            with contextlib.suppress(ForewarnError):
                self.take(*step)
            self.recorder.poll()
            self.world.advance(SECOND)
        self.recorder.poll()

    def take(self, what: str, event_type: EventType, number: int) -> None:
        world = self.world
        live = world.live_events()
        match what:
            case "stage":
                is_users = event_type is EventType.TERMINATE
                wanted = Staged(
                    event_type=event_type,
                    vms=(f"web_{number % 3}",),
                    source=EventSource.USER if is_users else EventSource.PLATFORM,
                    notice=number * SECOND,
                )
                world.order(lambda work: staged.inject(work, wanted))
            case "approve" if live:
                world.vm(VM).approve(live[0].event_id)
            case "cancel" if live:
                world.order(
                    lambda work: verbs.cancel(
                        work, live[0].operation, note=Said(text="")
                    )
                )
            case "quiet":
                world.advance(number * SECOND)
            case "wait":
                for _ in range(number // 30):
                    self.recorder.poll()
                    world.advance(30 * SECOND)
            case _:
                pass
        world.settle()


def answer(player: Replay, request: Request, at: int) -> bytes | None:
    """Return what a connection sends: the endpoint's word, or what failed."""
    plan = player.faults.take(VM, request)
    genuine = player.endpoint.handle(
        request, Source(address="", vm=VM), now=at, monotonic=0.0
    )
    assert isinstance(genuine, Response)
    response = player.faults.answer(VM, request, plan, genuine)
    return None if response is None else response.payload


@hypothesis.given(steps, st.sampled_from(VERSIONS), st.booleans())
def test_recording_replays_byte_for_byte(
    story: Story, version: ApiVersion, is_exact: bool
) -> None:
    taped = Taped(version)
    taped.play(story)
    taped.recorder.end("enough")
    recording = read_recording("".join(taped.lines).encode(), name="story")

    @in_loop
    async def replay() -> None:
        # From the same instant on, dates that are brought to it are what they were.
        clock = VirtualClock(taped.given[0][0])
        player = Replay(recording, clock=clock, exact=is_exact)
        player.add(VM)
        player.begin()
        for at, etag, payload in taped.given:
            clock.advance_to(at)
            player.settle()
            assert answer(player, asked(etag, taped.version), at) == payload

    replay()


@hypothesis.given(steps)
def test_recorded_older_versions_match_our_endpoint(story: Story) -> None:
    taped = Taped(NEWEST)
    taped.play(story)
    vm = taped.world.vm(VM)
    newest = vm.get(NEWEST.name)
    for version in VERSIONS:
        assert as_older(newest.body, version) == vm.get(version.name).body
