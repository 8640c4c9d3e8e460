"""A replay on a virtual clock: answers and their times, and dates in the present."""

import json

import pytest

from forewarn.clock import VirtualClock
from forewarn.fleet import instance
from forewarn.instants import DAY, MINUTE, SECOND, Micros, format_http_date
from forewarn.metadata.endpoint import Approve, Hold
from forewarn.metadata.http import Request, Response
from forewarn.metadata.identity import Source
from forewarn.protocol.versions import VERSIONS
from forewarn.sim.engine import START
from forewarn.sim.recorded import Redating, as_older
from forewarn.sim.recording import (
    Answer,
    Failed,
    Failure,
    Header,
    Moment,
    Outcome,
    Recording,
)
from forewarn.sim.replay import Replay
from tests.support.loops import in_loop

PATH = "/metadata/scheduledevents"
EVENT = "D4713D60-C8A7-4639-AB11-67B367A9C378"
NOW = START + 400 * DAY


def shown(number: int, *, not_before: Micros | None = None) -> Answer:
    """Return an answer in the form of the service."""
    events: list[object] = []
    if not_before is not None:
        events.append(
            {
                "EventId": EVENT,
                "EventStatus": "Scheduled",
                "EventType": "Preempt",
                "ResourceType": "VirtualMachine",
                "Resources": ["web_0"],
                "NotBefore": format_http_date(not_before),
                "Description": 'so it says: "NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT"',
                "EventSource": "Platform",
                "DurationInSeconds": -1,
            }
        )
    document = {"DocumentIncarnation": number, "Events": events}
    body = json.dumps(document, separators=(",", ":")).encode()
    headers = (
        ("Server", "forewarn"),
        ("ETag", f'"{number}"'),
        ("Content-Type", "application/json; charset=utf-8"),
        ("Content-Length", str(len(body))),
    )
    return Answer(status=200, headers=headers, body=body)


def recording(
    *steps: tuple[float, Outcome], version: str = "2020-07-01", took: Micros = 0
) -> Recording:
    moments = tuple(
        Moment(at=round(at * SECOND), outcome=outcome, took=took)
        for at, outcome in steps
    )
    return Recording(
        header=Header(api_version=version, started=START, poll=SECOND),
        moments=moments,
        length=moments[-1].at + 10 * SECOND,
        polls=1,
    )


class Player:
    """A replay on a virtual clock, without sockets."""

    def __init__(
        self, played: Recording, *, speed: float = 1, exact: bool = False
    ) -> None:
        self.clock = VirtualClock(NOW)
        self.replay = Replay(played, clock=self.clock, speed=speed, exact=exact)
        self.replay.add("vm_0")
        self.replay.begin()

    def advance(self, seconds: float) -> None:
        self.clock.advance_to(self.clock.now() + round(seconds * SECOND))
        self.replay.settle()

    def ask(self, version: str = "2020-07-01", *, etag: str = "") -> Response:
        headers = {"metadata": ("true",)}
        if etag:
            headers["if-none-match"] = (etag,)
        response = self.handle("GET", f"api-version={version}", headers=headers)
        assert isinstance(response, Response)
        return response

    def handle(
        self,
        method: str,
        query: str,
        *,
        headers: dict[str, tuple[str, ...]],
        body: bytes = b"",
    ) -> object:
        return self.replay.endpoint.handle(
            Request(method, PATH, query, headers, body),
            Source(address="", vm="vm_0"),
            now=self.clock.now(),
            monotonic=self.clock.monotonic(),
        )


@in_loop
async def test_each_document_is_served_at_its_time() -> None:
    story = Player(recording((0, shown(1)), (10, shown(2)), (60, shown(3))), exact=True)
    served = [story.ask().payload]
    for seconds in (9.9, 0.1, 49, 1, 500):
        story.advance(seconds)
        served.append(story.ask().payload)
    one, two, three = (shown(number).response().payload for number in (1, 2, 3))
    assert served == [one, one, two, two, three, three]
    assert story.replay.is_over


@in_loop
async def test_late_timer_serves_the_last_moment_before_the_end() -> None:
    story = Player(recording((0, shown(1)), (60, shown(2))), exact=True)
    story.clock.advance_to(NOW + 500 * SECOND)
    assert not story.replay.is_over
    assert story.replay.next_at is not None
    story.replay.settle()
    assert story.replay.is_over
    assert story.ask().payload == shown(2).response().payload


@in_loop
async def test_rest_of_a_cut_recording_starts_at_once() -> None:
    due = START + 5_000 * SECOND
    left = recording((4_000, shown(1, not_before=due)), (4_010, shown(2)))
    story = Player(left)
    again = shown(1, not_before=NOW + 1_000 * SECOND)
    assert story.ask().payload == again.response().payload
    story.advance(10)
    assert story.ask().payload == shown(2).response().payload
    story.advance(10)
    assert story.replay.is_over


@in_loop
async def test_speed_divides_the_times_of_a_recording() -> None:
    story = Player(recording((0, shown(1)), (600, shown(2))), speed=60, exact=True)
    story.advance(9.9)
    assert story.ask().payload == shown(1).response().payload
    story.advance(0.1)
    assert story.ask().payload == shown(2).response().payload


@in_loop
async def test_matching_etag_gets_304_only_after_the_first_response() -> None:
    story = Player(recording((0, shown(1)), (10, shown(2))))
    assert story.ask(etag='"1"').status == 200
    assert story.ask(etag='"1"').payload == (
        b'HTTP/1.1 304 Not Modified\r\nServer: forewarn\r\nETag: "1"\r\n\r\n'
    )
    story.advance(10)
    assert story.ask(etag='"1"').status == 200
    weak = Answer(status=200, headers=(("etag", 'W/"a"'),), body=b"{}")
    untagged = Answer(status=200, headers=(), body=b"{}")
    story = Player(recording((0, weak), (10, untagged)))
    assert [story.ask(etag='W/"a"').status for _ in range(2)] == [200, 304]
    story.advance(10)
    assert [story.ask(etag='W/"a"').status for _ in range(2)] == [200, 200]


@in_loop
async def test_only_dates_are_shifted_to_now() -> None:
    due = START + 15 * MINUTE
    answer = shown(1, not_before=due)
    played = recording((0, answer))
    assert Player(played, exact=True).ask().payload == answer.response().payload
    again = NOW + 15 * MINUTE
    wanted = shown(1, not_before=again).response().payload
    assert Player(played).ask().payload == wanted
    # At any speed, NotBefore is the moment when the replay reaches it.
    faster = Player(played, speed=60).ask().payload
    assert faster == shown(1, not_before=NOW + 15 * SECOND).response().payload
    # It is rounded up, as NotBefore always is.
    odd = Player(played, speed=7).ask().payload
    assert odd == shown(1, not_before=NOW + 129 * SECOND).response().payload


@pytest.mark.parametrize(
    ("written", "now"),
    [
        (b"Tue, 01 Jan 2030 00:15:00 GMT", b"Wed, 05 Feb 2031 00:15:00 GMT"),
        (b"2030-01-01T00:15:00Z", b"2031-02-05T00:15:00Z"),
        (b"2030-01-01T00:15:00.25Z", b"2031-02-05T00:15:00Z"),
        (b"2030-01-01 00:15:00", b"2031-02-05 00:15:00"),
        (b"2030-01-01T00:15:00+00:00", b"2031-02-05T00:15:00+00:00"),
        (b"", b""),
        (b"tomorrow", b"tomorrow"),
        (b"9999-12-31T23:59:59Z", b"9999-12-31T23:59:59Z"),
        (b"\xff", b"\xff"),
    ],
)
def test_shifted_date_keeps_its_format(written: bytes, now: bytes) -> None:
    redating = Redating(then=START, now=NOW)
    answer = Answer(status=200, headers=(), body=b'{"NotBefore" : "%b"}' % written)
    assert redating.answer(answer).body == b'{"NotBefore" : "%b"}' % now


@in_loop
async def test_older_versions_are_derived_from_the_recorded_one() -> None:
    played = recording((0, shown(4, not_before=START)), version="2019-08-01")
    story = Player(played, exact=True)

    def members(version: str) -> list[str]:
        document = json.loads(story.ask(version).payload.partition(b"\r\n\r\n")[2])
        assert document["DocumentIncarnation"] == 4
        return [member for event in document["Events"] for member in event]

    old = ["EventId", "EventStatus", "EventType", "ResourceType", "Resources"]
    assert members("2019-04-01") == [*old, "NotBefore", "Description"]
    assert members("2017-11-01") == [*old, "NotBefore"]
    assert members("2017-08-01") == []
    newer = story.ask("2020-07-01")
    assert newer.status == 400
    assert (
        b'"newest-versions":["2019-08-01","2019-04-01","2019-01-01"]' in newer.payload
    )


def test_non_document_body_is_the_same_in_all_versions() -> None:
    assert as_older(b"<html>", VERSIONS[0]) == b"<html>"
    assert as_older(b'{"Events":null}', VERSIONS[0]) == b'{"Events":null}'


@in_loop
async def test_approvals_are_accepted_for_events_that_were_shown() -> None:
    played = recording((0, shown(1)), (10, shown(2, not_before=START)), (20, shown(3)))
    story = Player(played)
    body = json.dumps({"StartRequests": [{"EventId": EVENT.lower()}]}).encode()

    async def approve() -> str | None:
        approval = story.handle(
            "POST",
            "api-version=2020-07-01",
            headers={"metadata": ("true",)},
            body=body,
        )
        assert isinstance(approval, Approve)
        return await story.replay.approve(approval.vm, approval.event_ids)

    assert await approve() == f"EventId {EVENT} is not in this VM's document"
    story.advance(10)
    assert await approve() is None
    story.advance(10)
    # A removed event was shown, so a late approval is harmless (3.2).
    assert await approve() is None
    assert story.ask().payload == shown(3).response().payload


@in_loop
async def test_instance_metadata_contains_the_vm_name() -> None:
    gateway = Player(recording((0, shown(1)))).replay
    facts = await gateway.instance("web_0")
    assert facts is not None
    tree = instance.document(facts, version="2021-02-01")
    assert instance.find(tree, ("compute", "name")) == "web_0"
    assert await gateway.instance('no "name"\n') is None
    assert await gateway.own_events("web_0") is None


@in_loop
async def test_replay_enforces_the_protocol_rules() -> None:
    story = Player(recording((0, shown(1))))
    headers = {"metadata": ("true",)}

    def status(
        query: str, headers: dict[str, tuple[str, ...]], method: str = "GET"
    ) -> int:
        response = story.handle(method, query, headers=headers)
        assert isinstance(response, Response)
        return response.status

    assert status("api-version=2020-07-01", {}) == 400
    assert status("api-version=2021-07-01", headers) == 400
    assert status("api-version=2020-07-01", headers, method="PUT") == 405
    assert status("api-version=2020-07-01", headers, method="POST") == 400


@in_loop
async def test_slow_first_answer_is_replayed_slowly() -> None:
    played = recording((60, shown(1)), took=55 * SECOND)
    story = Player(played, speed=10)
    answer = story.handle(
        "GET", "api-version=2020-07-01", headers={"metadata": ("true",)}
    )
    assert answer == Hold(until=NOW + 55 * SECOND // 10)
    story.advance(6)
    assert story.ask().status == 200


@in_loop
async def test_failure_starts_at_its_recorded_time() -> None:
    failed = Moment(
        at=20 * SECOND, outcome=Failed(failure=Failure.TIMEOUT), took=10 * SECOND
    )
    first = Moment(at=0, outcome=shown(1))
    story = Player(
        Recording(
            header=recording((0, shown(1))).header,
            moments=(first, failed),
            length=30 * SECOND,
            polls=2,
        )
    )
    story.advance(9.9)
    assert story.replay.faults.is_idle
    story.advance(0.1)
    assert not story.replay.faults.is_idle


@in_loop
async def test_time_can_be_advanced_on_the_system_clock() -> None:
    due = START + 900 * SECOND
    played = recording((0, shown(1)), (10, shown(2, not_before=due)), (60, shown(3)))
    clock = Running(NOW)
    replay = Replay(played, clock=clock)
    replay.add("vm_0")
    assert not replay.has_begun
    replay.jump(10 * SECOND)
    assert replay.has_begun
    [event] = replay.events.live
    assert event.not_before == NOW + 890 * SECOND
    assert replay.next_at == NOW + 50 * SECOND
    # The next moment comes nearer, and NotBefore with it.
    replay.jump(30 * SECOND)
    [event] = replay.events.live
    assert event.not_before == NOW + 860 * SECOND
    replay.pause()
    clock.instant += 100 * SECOND
    replay.settle()
    assert replay.elapsed == 40 * SECOND
    replay.resume()
    [event] = replay.events.live
    assert event.not_before == NOW + 960 * SECOND
    replay.jump(20 * SECOND)
    assert replay.events.live == []
    assert replay.next_at == NOW + 110 * SECOND
    replay.jump(DAY)
    assert (replay.is_over, replay.next_at) == (True, None)


class Running:
    """The machine's clock, under the control of the test."""

    def __init__(self, instant: Micros) -> None:
        self.instant = instant

    def now(self) -> Micros:
        return self.instant

    def monotonic(self) -> float:
        return self.instant / SECOND
