"""The fast reader of requests, compared with the full one."""

import asyncio
from random import Random

import pytest

from forewarn.metadata import limits
from forewarn.metadata.fast_parser import parse_common
from forewarn.metadata.reader import Received, RequestReader
from tests.fuzz import grammar
from tests.fuzz.talk import Talk, answers_of
from tests.fuzz.test_http import make_hub
from tests.unit.metadata.support import EVENT, EVENT_ID, published, snapshot

BODY = b'{"StartRequests":[{"EventId":"%b"}]}' % EVENT_ID.encode()

CURL = (
    b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n"
    b"Host: 169.254.169.254\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n"
    b"Metadata: true\r\n\r\n"
)
REQUESTS = (
    b"POST /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n"
    b"Host: 169.254.169.254\r\nUser-Agent: python-requests/2.31.0\r\n"
    b"Accept-Encoding: gzip, deflate\r\nAccept: */*\r\nConnection: keep-alive\r\n"
    b"Metadata: true\r\nContent-Length: %d\r\nContent-Type: application/json\r\n\r\n%b"
    % (len(BODY), BODY)
)
LINES = (
    b"Host: again",
    b"Transfer-Encoding: chunked",
    b"Expect: 100-continue",
    b"Upgrade: h2c",
    b"Connection: close",
    b"Proxy-Connection: close",
    b"Content-Length: 0",
    b"Content-Length: 5",
    b"X-Long: " + b"y" * 600,
    b"X-Tab:\tvalue",
    b"X-Inner: a\tb",
    b"X-Empty:",
    b"X-Latin: \xe9",
    b"X Y: z",
    b" folded",
)


def read_long(data: bytes) -> object:
    """Return the one request that the reader makes of it; None: anything else."""
    reader = RequestReader(lambda _request: None)
    reader.feed(data)
    if len(reader.ready) != 1 or not reader.is_between or reader.is_done:
        return None
    return reader.ready[0]


@pytest.mark.parametrize("data", [CURL, REQUESTS])
def test_common_client_requests_use_the_fast_path(data: bytes) -> None:
    parsed = parse_common(data)
    assert isinstance(parsed, Received)
    assert parsed == read_long(data)
    assert parse_common(data + b"G") is None
    assert parse_common(data[:-1]) is None


def test_fast_path_and_full_parser_agree(fuzz_requests: int, fuzz_seed: int) -> None:
    rng = Random(f"plain-{fuzz_seed}")
    short = 0
    for number in range(fuzz_requests):
        data = _bytes(rng)
        parsed = parse_common(data)
        if parsed is not None:
            short += 1
            assert parsed == read_long(data), (number, data)
    assert short > fuzz_requests // 20, "hardly any went the short way"


def test_fast_path_never_takes_a_request_over_a_limit() -> None:
    """It is asked only for so few bytes, and refuses no request for its size."""
    smallest = min(
        limits.TARGET_BYTES_MAX,
        limits.HEAD_BYTES_MAX,
        limits.BODY_BYTES_MAX,
        limits.MESSAGE_BYTES_MAX,
    )
    assert smallest >= limits.CACHED_REQUEST_BYTES_MAX
    few = b"".join(b"X-%d: y\r\n" % number for number in range(limits.HEADERS_MAX))
    many = CURL.replace(b"Accept: */*\r\n", few)
    assert parse_common(many) is None


@pytest.mark.parametrize("data", [CURL, REQUESTS])
def test_fast_path_counts_against_the_rate_limit(data: bytes) -> None:
    async def statuses(pieces: list[bytes]) -> list[int]:
        hub = make_hub(rate_limit=2)
        hub.endpoint.publish(published(snapshot(2, EVENT)))
        conversation = Talk(hub)
        await conversation.send(pieces)
        return [answer.status for answer in answers_of(await conversation.end())]

    async def story() -> None:
        whole = await statuses([data] * 6)
        assert whole == await statuses([data[:9], data[9:]] * 6)
        assert (whole[0], whole[-1]) == (200, 429)

    asyncio.run(story())


def _bytes(rng: Random) -> bytes:
    match rng.randrange(5):
        case 0:
            return grammar.wire(rng, grammar.ask(rng))
        case 1:
            return grammar.mutated(rng, grammar.wire(rng, grammar.ask(rng)))
        case 2:
            return grammar.mutated(rng, rng.choice((CURL, REQUESTS)))
        case 3:
            lines = rng.choice((CURL, REQUESTS)).split(b"\r\n")
            lines.insert(rng.randrange(1, len(lines) - 1), rng.choice(LINES))
            return b"\r\n".join(lines)
        case _:
            data = bytearray(rng.choice((CURL, REQUESTS)))
            data[rng.randrange(len(data))] = rng.randrange(256)
            return bytes(data)
