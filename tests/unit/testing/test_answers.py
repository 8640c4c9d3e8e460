"""Tests of the parser for untrusted answers: lengths are parsed as in RFC 9112."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.testing.answers import (
    BODY_BYTES_MAX,
    CHUNK_LINE_BYTES_MAX,
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    INTERIM_MAX,
    RECEIVED_BYTES_MAX,
    Answer,
    BrokenAnswerError,
    How,
    NotHttpError,
    Reader,
)

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def length(value: bytes) -> bytes:
    return OK + b"Content-Length: " + value + b"\r\n\r\n"


def read(data: bytes, *, method: str = "GET", ends: bool = True) -> Answer:
    """Parse an answer in one piece, and then the end of the connection."""
    reader = Reader(method=method)
    reader.feed(data)
    if ends:
        reader.end()
    assert reader.answer is not None
    return reader.answer


BODIES = {
    "a length": length(b"5") + b"hello",
    "a length with zeros": length(b"0" * 30 + b"5") + b"hello",
    "the end": OK + b"\r\nhello",
    "a chunk": CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",
    "a chunk with zeros": CHUNKED + b"0" * 30 + b"5\r\nhello\r\n0\r\n\r\n",
    "chunks": CHUNKED + b"1\r\nh\r\n00004\r\nello\r\n000\r\n\r\n",
    "an extension": CHUNKED + b'5 ; a="b"\r\nhello\r\n0;c\r\n\r\n',
    "a trailer": CHUNKED + b"5\r\nhello\r\n0\r\nContent-Length: -1\r\n\r\n",
    "an interim answer": b"HTTP/1.1 100 Go on\r\nA: b\r\n\r\n"
    + length(b"5")
    + b"hello",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
}


@pytest.mark.parametrize("name", BODIES)
@given(data=st.data())
def test_answer_is_read_from_any_two_pieces(name: str, data: st.DataObject) -> None:
    whole = BODIES[name]
    at = data.draw(st.integers(0, len(whole)))
    reader = Reader()
    for piece in (whole[:at], whole[at:]):
        reader.feed(piece)
    reader.end()
    assert reader.answer is not None
    assert reader.answer.body == b"hello"


SIZES = [
    *(b"-5", b"+5", b"0x5", b"1_0", b"5 ", b" 5", b"", b"5 5", b"five"),
    *("\uff15".encode(), "\u0665".encode(), b"5\r", b"5\x00", b"5;\x00"),
]
"""Python's `int` accepts most of these texts."""


@pytest.mark.parametrize("size", SIZES)
def test_chunk_size_must_be_hexadecimal_digits(size: bytes) -> None:
    with pytest.raises(
        BrokenAnswerError, match="the size of a chunk is invalid"
    ) as caught:
        read(CHUNKED + size + b"\r\nhello\r\n0\r\n\r\n")
    assert caught.value.how is How.MALFORMED
    assert repr(size + b"\r\n") in str(caught.value)
    assert caught.value.received.startswith(CHUNKED + size)


LENGTHS = [
    *(b"-5", b"+5", b"0x5", b"1_0", b"five", b"5 5", b"5, 5", b""),
    *("\uff15".encode(), b"\xb2", b"5\r\nContent-Length: 4", b"5\r\nContent-Length: 5"),
    *(b"5\r\n 5", b"5.0"),
]


@pytest.mark.parametrize("value", LENGTHS)
def test_content_length_must_be_decimal_digits(value: bytes) -> None:
    with pytest.raises(
        BrokenAnswerError, match="its Content-Length is not a number: b'"
    ):
        read(length(value) + b"hello")


@pytest.mark.parametrize(
    "head",
    [
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"No colon\r\n",
        b"Blank : before\r\n",
        b" Folded: before anything\r\n",
        b"A: b\rc\r\n",
        b"A: b\r\n c\x00\r\n",
    ],
)
def test_ambiguous_head_is_rejected(head: bytes) -> None:
    with pytest.raises(BrokenAnswerError) as caught:
        read(OK + head + b"\r\n5\r\nhello\r\n0\r\n\r\n")
    assert caught.value.how is How.MALFORMED


def test_chunk_longer_than_its_size_is_rejected() -> None:
    for end in (b"\n", b"x\r\n", b"\r\r\n"):
        with pytest.raises(BrokenAnswerError, match="a chunk is longer than its size"):
            read(CHUNKED + b"5\r\nhello" + end + b"0\r\n\r\n")


@pytest.mark.parametrize("line", [b"HTTP/1.1 OK", b"HTTP/1.1 +20 OK", b"HTTP/1.1 2_0"])
def test_status_must_be_three_digits(line: bytes) -> None:
    with pytest.raises(NotHttpError, match="no HTTP answer"):
        read(line + b"\r\n\r\n")


def pour(data: bytes) -> None:
    """Send a beginning, and then endless data."""
    reader = Reader()
    reader.feed(data)
    for _ in range(40):
        reader.feed(b"1" * 65_536)


ENDLESS = {
    "a status line": OK[:-2],
    "a header": OK + b"A: ",
    "headers": OK + b"Ab: c\r\n" * HEADERS_MAX,
    "interim answers": b"HTTP/1.1 103 Hints\r\n\r\n" * (INTERIM_MAX + 1),
    "trailers": CHUNKED + b"0\r\n" + b"Ab: c\r\n" * HEADERS_MAX,
    "a chunk extension": CHUNKED + b"5;",
    "a chunk size": CHUNKED + b"5",
    "chunk extensions": CHUNKED + (b"1;" + b"x" * 4000 + b"\r\nh\r\n") * 263,
    "a body": OK + b"\r\n",
    "chunks": CHUNKED + b"40000\r\n%s\r\n" % (b"x" * 0x40000) * 4,
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_answers_are_aborted(name: str) -> None:
    with pytest.raises(BrokenAnswerError) as caught:
        pour(ENDLESS[name])
    assert caught.value.how is How.TOO_LONG
    assert 0 < len(caught.value.received) <= RECEIVED_BYTES_MAX


@pytest.mark.parametrize(
    "data",
    [
        length(b"9" * 5000),
        length(b"%d" % (BODY_BYTES_MAX + 1)),
        CHUNKED + b"F" * (CHUNK_LINE_BYTES_MAX - 10) + b"\r\n",
        CHUNKED + b"%x\r\n" % (BODY_BYTES_MAX + 1),
        OK + b"A: " + b"b" * HEAD_BYTES_MAX + b"\r\n\r\n",
    ],
)
def test_answer_with_a_too_large_length_is_rejected_at_once(data: bytes) -> None:
    with pytest.raises(BrokenAnswerError) as caught:
        read(data, ends=False)
    assert caught.value.how is How.TOO_LONG
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("status", [b"204 No", b"304 Same"])
def test_answers_without_a_body_ignore_their_length(status: bytes) -> None:
    head = b"HTTP/1.1 " + status + b"\r\nContent-Length: 5\r\n\r\n"
    assert read(head, ends=False).body == b""
    assert read(length(b"5"), method="HEAD", ends=False).body == b""


@pytest.mark.parametrize("name", [body for body in BODIES if body != "the end"])
def test_truncated_answer_is_rejected(name: str) -> None:
    whole = BODIES[name]
    for at in range(1, len(whole)):
        reader = Reader()
        reader.feed(whole[:at])
        if reader.answer is None:
            with pytest.raises(BrokenAnswerError, match="cut short") as caught:
                reader.end()
            assert caught.value.how is How.CUT
            assert caught.value.received == whole[:at]


@given(tail=st.binary(max_size=60), head=st.sampled_from([CHUNKED, OK, b"HTTP/1.1 2"]))
def test_any_bytes_give_an_answer_or_a_connection_error(
    head: bytes, tail: bytes
) -> None:
    reader = Reader()
    try:
        reader.feed(head + tail)
        reader.end()
    except ConnectionError:
        assert reader.answer is None
    else:
        assert reader.answer is not None
