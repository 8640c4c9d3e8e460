"""Bytes in, requests out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.metadata import answers, limits
from forewarn.metadata.http import Request, Response
from forewarn.metadata.reader import Received, Refused, RequestReader

PLAIN = (
    b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n"
    b"Host: 169.254.169.254\r\n"
    b"metadata:  True \t\r\n"
    b"X-Twice: a\r\nx-twice: b\r\n"
    b"\r\n"
)
CHUNKED = (
    b"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b"3;name=value\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\n"
)
SIZED = b"POST /p?q HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde"


def make_reader(refusal: Response | None = None) -> RequestReader:
    return RequestReader(lambda _request: refusal)


def read(data: bytes) -> list[Received | Refused]:
    reader = make_reader()
    reader.feed(data)
    return list(reader.ready)


def refusal(data: bytes) -> Response:
    *_, last = read(data)
    assert isinstance(last, Refused)
    return last.response


def head(*lines: str, first: str = "POST /p HTTP/1.1") -> bytes:
    return "\r\n".join([first, "Host: h", *lines, "", ""]).encode("latin-1")


def test_a_request_is_read() -> None:
    assert read(PLAIN) == [
        Received(
            request=Request(
                method="GET",
                path="/metadata/scheduledevents",
                query="api-version=2020-07-01",
                headers={
                    "host": ("169.254.169.254",),
                    "metadata": ("True",),
                    "x-twice": ("a", "b"),
                },
            ),
            keep=True,
        )
    ]


@pytest.mark.parametrize("data", [PLAIN, CHUNKED, SIZED, PLAIN + CHUNKED + SIZED])
def test_split_position_does_not_change_the_requests(data: bytes) -> None:
    whole = read(data)
    for at in range(1, len(data)):
        reader = make_reader()
        reader.feed(data[:at])
        reader.feed(data[at:])
        assert list(reader.ready) == whole
        assert reader.is_between
    reader = make_reader()
    for byte in data:
        reader.feed(bytes([byte]))
    assert list(reader.ready) == whole


def test_body_is_read_by_length_or_in_chunks() -> None:
    for data in (CHUNKED, SIZED):
        (received,) = read(data)
        assert isinstance(received, Received)
        assert received.request.body == b"abcde"
        assert "trailer" not in received.request.headers


@pytest.mark.parametrize(
    ("data", "keep"),
    [
        (PLAIN, True),
        (head("Connection: close"), False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive, Close\r\n\r\n", False),
        (
            b"GET / HTTP/1.0\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n",
            False,
        ),
        (head("Connection: upgrade", "Upgrade: h2c", first="GET / HTTP/1.1"), False),
        (head(first="CONNECT h:80 HTTP/1.1"), False),
    ],
)
def test_connection_is_kept_or_closed_by_the_request(data: bytes, keep: bool) -> None:
    reader = make_reader()
    # Data after a request that closes is not read, and is not an error.
    reader.feed(data + b"\x16\x03 noise" * (not keep))
    (received,) = reader.ready
    assert isinstance(received, Received)
    assert received.keep is keep
    assert reader.is_done is not keep
    if not keep:
        reader.feed(PLAIN)
        assert len(reader.ready) == 1


@pytest.mark.parametrize(
    "data",
    [
        head("Content-Length: 5", "Transfer-Encoding: chunked"),
        head("Transfer-Encoding: chunked", "Content-Length: 5"),
        head("Content-Length: 5", "Content-Length: 5"),
        head("Content-Length: 5", "Content-Length: 6"),
        head("Content-Length: 5, 5"),
        head("Content-Length: +5"),
        head("Content-Length: -1"),
        head("Content-Length: "),
        head("Content-Length: 0x5"),
        head("Content-Length: 99999999999999999999999"),
        head("Transfer-Encoding: gzip"),
        head("Transfer-Encoding: gzip, chunked"),
        head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        head("Transfer-Encoding: chunked", first="POST / HTTP/1.0"),
        head("Transfer-Encoding: chunked") + b"x\r\n",
        head("Transfer-Encoding: chunked") + b"-1\r\n",
        head("Host: other"),
        head("Host : h"),
        head(" folded"),
        b"GET / HTTP/1.1\r\nMetadata: true\r\n\r\n",
        b"GET / HTTP/1.1\nHost: h\n\n",
        b"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /\r\nHost: h\r\n\r\n",
        b"V" * (limits.VERB_BYTES_MAX + 1) + b" / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"{}",
    ],
)
def test_ambiguous_request_is_refused(data: bytes) -> None:
    answer = refusal(data)
    assert answer is answers.MALFORMED
    assert answer.close


def test_refusal_follows_the_valid_requests_before_it() -> None:
    received, refused = read(SIZED + b"\x00")
    assert isinstance(received, Received)
    assert refused == Refused(answers.MALFORMED)
    reader = make_reader()
    reader.feed(b"\x00")
    reader.feed(SIZED)
    assert list(reader.ready) == [Refused(answers.MALFORMED)]


@pytest.mark.clause("1.2")
@pytest.mark.parametrize("verb", ["BREW", "FOO", "X", "V" * limits.VERB_BYTES_MAX])
def test_unknown_verb_is_parsed_like_any_other(verb: str) -> None:
    data = head("Content-Length: 2", first=f"{verb} /p HTTP/1.1") + b"ab"
    first, second = read(data + SIZED)
    assert isinstance(first, Received)
    assert (first.request.method, first.request.body) == (verb, b"ab")
    assert first.keep
    assert isinstance(second, Received)
    assert second.request.method == "POST"


def test_other_http_versions_are_refused() -> None:
    assert refusal(head(first="GET / HTTP/2.0")) is answers.HTTP_VERSION
    assert refusal(head(first="GET / HTTP/1.2")) in {
        answers.HTTP_VERSION,
        answers.MALFORMED,
    }
    http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    assert refusal(http2).status in {400, 405, 505}


# -- limits


def test_target_length_is_limited() -> None:
    longest = "/" + "x" * (limits.TARGET_BYTES_MAX - 1)
    (received,) = read(head(first=f"GET {longest} HTTP/1.1"))
    assert isinstance(received, Received)
    assert refusal(head(first=f"GET {longest}x HTTP/1.1")) is answers.TARGET_TOO_LONG


def test_headers_are_limited_in_number_and_in_size() -> None:
    most = [f"x-{n}: 1" for n in range(limits.HEADERS_MAX - 1)]
    assert isinstance(read(head(*most))[0], Received)
    assert refusal(head(*most, "y: 1")) is answers.HEAD_TOO_LARGE
    value = "v" * (limits.HEAD_BYTES_MAX // 2)
    assert refusal(head(f"a: {value}", f"b: {value}")) is answers.HEAD_TOO_LARGE
    assert refusal(head(f"a: {value * 3}")) is answers.HEAD_TOO_LARGE


def test_endless_header_is_refused() -> None:
    reader = make_reader()
    reader.feed(b"GET / HTTP/1.1\r\nHost: h\r\nx: ")
    sent = 0
    while not reader.is_done:
        reader.feed(b"v" * 1000)
        sent += 1000
        assert sent <= limits.HEAD_BYTES_MAX + 1000
    assert list(reader.ready) == [Refused(answers.HEAD_TOO_LARGE)]


def test_trailers_count_against_the_head_limit() -> None:
    start = head("Transfer-Encoding: chunked") + b"0\r\n"
    trailer = b"t: " + b"v" * limits.HEAD_BYTES_MAX + b"\r\n\r\n"
    assert refusal(start + trailer) is answers.HEAD_TOO_LARGE
    reader = make_reader()
    begin = b"0\r\nt: "
    reader.feed(head("Transfer-Encoding: chunked") + begin)
    left = limits.MESSAGE_BYTES_MAX - len(begin)
    while left:
        reader.feed(b"v" * min(left, 65536))
        left -= min(left, 65536)
    assert not reader.is_done
    reader.feed(b"v")
    (refused,) = reader.ready
    assert isinstance(refused, Refused)
    assert refused.response is answers.BODY_TOO_LARGE


@pytest.mark.parametrize("first", [PLAIN, CHUNKED, SIZED])
def test_data_after_a_request_is_not_part_of_it(first: bytes) -> None:
    count = limits.MESSAGE_BYTES_MAX // len(PLAIN) + 1
    for at in (20, len(first) - 1, len(first)):
        reader = make_reader()
        reader.feed(first[:at])
        reader.feed(first[at:] + PLAIN * count)
        assert len(reader.ready) == count + 1
        assert all(isinstance(item, Received) for item in reader.ready)
        assert reader.is_between


def test_body_size_is_limited_by_length_and_while_reading() -> None:
    limit = limits.BODY_BYTES_MAX
    assert refusal(head(f"Content-Length: {limit + 1}")) is answers.BODY_TOO_LARGE
    (received,) = read(head(f"Content-Length: {limit}") + b"x" * limit)
    assert isinstance(received, Received)
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    start = head("Transfer-Encoding: chunked")
    assert len(read(start + chunk * 2 + b"0\r\n\r\n")) == 1
    assert refusal(start + chunk * 3) is answers.BODY_TOO_LARGE


# -- Expect


@pytest.mark.clause("1.12")
def test_reader_awaits_a_body_with_expect_100_continue() -> None:
    reader = make_reader()
    reader.feed(head("Content-Length: 5", "Expect: 100-Continue"))
    assert reader.awaits_continue
    assert not reader.ready
    reader.feed(b"abcde")
    assert not reader.awaits_continue
    assert len(reader.ready) == 1


@pytest.mark.clause("1.12")
def test_body_sent_without_waiting_needs_no_continue() -> None:
    reader = make_reader()
    reader.feed(head("Content-Length: 5", "Expect: 100-continue") + b"a")
    assert not reader.awaits_continue
    reader = make_reader()
    reader.feed(head("Content-Length: 0", "Expect: 100-continue"))
    assert not reader.awaits_continue
    old = b"POST / HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    reader = make_reader()
    reader.feed(old)
    assert not reader.awaits_continue


@pytest.mark.clause("1.12")
def test_invalid_head_is_refused_without_100_continue() -> None:
    reader = make_reader(answers.HEADER_MISSING)
    reader.feed(head("Content-Length: 5", "Expect: 100-continue"))
    (refused,) = reader.ready
    assert isinstance(refused, Refused)
    assert refused.response is answers.HEADER_MISSING
    # Its headers may tell who asks.
    assert refused.request is not None
    assert refused.request.values("expect") == ("100-continue",)
    assert not reader.awaits_continue


@pytest.mark.parametrize(
    "lines",
    [["Expect: 200-ok"], ["Expect: "], ["Expect: 100-continue"] * 2],
)
def test_other_expectations_are_refused(lines: list[str]) -> None:
    assert refusal(head("Content-Length: 5", *lines)) is answers.EXPECTATION


# -- noise


@given(st.lists(st.binary(max_size=40), max_size=8), st.sampled_from([b"", PLAIN]))
def test_noise_never_raises(pieces: list[bytes], start: bytes) -> None:
    reader = make_reader()
    reader.feed(start)
    for piece in pieces:
        reader.feed(piece)
    assert all(isinstance(item, Received | Refused) for item in reader.ready)


@given(st.data())
def test_a_damaged_request_never_raises(data: st.DataObject) -> None:
    damaged = bytearray(PLAIN + CHUNKED + SIZED)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(
            st.integers(0, 255)
        )
    whole = read(bytes(damaged))
    reader = make_reader()
    for byte in damaged:
        reader.feed(bytes([byte]))
    statuses = [i.response.status if isinstance(i, Refused) else i for i in whole]
    cut = [i.response.status if isinstance(i, Refused) else i for i in reader.ready]
    assert statuses == cut
