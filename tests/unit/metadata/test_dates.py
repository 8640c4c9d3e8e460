"""The Date header is the time of sending, on every path to a response."""

import pytest

from forewarn.clock import VirtualClock
from forewarn.instants import HOUR, MILLISECOND, SECOND, format_http_date
from forewarn.metadata import answers
from forewarn.metadata.dates import DatedPayload, Dates
from forewarn.metadata.http import Response
from tests.support.loops import in_loop
from tests.unit.metadata.support import GET, NOW, POST, World, parse, raw, running


class Counting(VirtualClock):
    """A clock that counts how often it is read."""

    reads = 0

    def now(self) -> int:
        self.reads += 1
        return super().now()


def forward(clock: VirtualClock, by: int) -> None:
    clock.advance_to(clock.now() + by)


def date_of(clock: VirtualClock) -> str:
    return format_http_date(clock.now())


def dates_at(start: int) -> tuple[Counting, Dates]:
    clock = Counting(start)
    return clock, Dates(clock)


def stamped(dates: Dates, clock: VirtualClock, response: Response) -> str:
    payload = dates.stamp(response, response.payload, clock.monotonic())
    return parse(payload).headers["Date"]


def test_date_text_is_formatted_once_a_second() -> None:
    clock, dates = dates_at(NOW + 700 * MILLISECOND)
    assert stamped(dates, clock, answers.APPROVED) == format_http_date(NOW)
    forward(clock, 299 * MILLISECOND)
    clock.reads = 0
    assert stamped(dates, clock, answers.NOT_FOUND) == format_http_date(NOW)
    assert clock.reads == 0
    forward(clock, MILLISECOND)
    assert stamped(dates, clock, answers.APPROVED) == format_http_date(NOW + SECOND)


def test_date_follows_the_status_line_and_changes_nothing_else() -> None:
    clock, dates = dates_at(NOW)
    plain = answers.NOT_FOUND.payload
    payload = dates.stamp(answers.NOT_FOUND, plain, clock.monotonic())
    line = f"Date: {format_http_date(NOW)}\r\n".encode()
    assert payload.startswith(b"HTTP/1.1 404 Not Found\r\n" + line)
    assert payload.replace(line, b"") == plain


def test_existing_date_header_is_kept() -> None:
    clock, dates = dates_at(NOW)
    own = Response(
        status=200, payload=b"HTTP/1.1 200 OK\r\ndate: x\r\n\r\n", takes_date=False
    )
    assert dates.stamp(own, own.payload, clock.monotonic()) == own.payload
    assert DatedPayload(own, dates).at(clock.monotonic()) == own.payload


def test_repeated_payload_is_rebuilt_once_a_second() -> None:
    clock, dates = dates_at(NOW)
    again = DatedPayload(answers.APPROVED, dates)
    first = again.at(clock.monotonic())
    assert again.at(clock.monotonic()) is first
    forward(clock, SECOND)
    second = again.at(clock.monotonic())
    assert parse(second).headers["Date"] == format_http_date(NOW + SECOND)


async def dates_of(world: World, data: bytes, times: int) -> list[str]:
    """Return the dates of the same request, a second apart, on one connection."""
    wire, found = await world.connect(), list[str]()
    for _ in range(times):
        wire.send(data)
        answer = await wire.answer()
        assert answer.headers["Date"] == date_of(world.clock)
        found.append(answer.headers["Date"])
        forward(world.clock, SECOND)
    return found


@pytest.mark.parametrize(
    "data",
    [
        GET,
        raw("GET", "/metadata/scheduledevents?api-version=2020-07-01", "X: \ty"),
        raw("DELETE"),
        raw("GET", "/nothing"),
        POST,
    ],
    ids=["known", "parsed", "not allowed", "not found", "approval"],
)
@in_loop
async def test_every_answer_of_a_connection_has_the_date(data: bytes) -> None:
    async with running() as world:
        # The same bytes are answered by shorter and shorter ways.
        assert len(set(await dates_of(world, data, 5))) == 5


@in_loop
async def test_cached_response_has_the_current_date_after_a_clock_jump() -> None:
    async with running() as world:
        wire = await world.connect()
        for _ in range(3):
            wire.send(GET)
            await wire.answer()
        forward(world.clock, HOUR)
        world.server.wake()
        wire.send(GET)
        assert (await wire.answer()).headers["Date"] == date_of(world.clock)


@pytest.mark.parametrize(
    "data",
    [b"no request\r\n\r\n", raw("GET", "/" + "x" * 9000), raw("HEAD")],
    ids=["malformed", "too long", "without a body"],
)
@in_loop
async def test_refusals_and_answers_without_a_body_have_the_date(data: bytes) -> None:
    async with running() as world:
        wire = await world.connect()
        wire.send(data)
        answer = await wire.answer(bodiless=True)
        assert answer.headers["Date"] == date_of(world.clock)
