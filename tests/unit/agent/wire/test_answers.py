"""Bytes are an answer or an error, however they are cut."""

import pytest

from forewarn.agent.wire.answers import (
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    Answer,
    HttpError,
    Reader,
    Trouble,
)

WHOLE = {
    "length": b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: "1"\r\n\r\nhello',
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b"3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Length:5\r\n\r\nhello",
    "no reason": b"HTTP/1.1 200\r\nContent-Length: 5 \r\n\r\nhello",
    "twice the same length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
    b"Content-Length: 5\r\n\r\nhello",
}


def read(data: bytes, *, cut: int = 1 << 20, ends: bool = False) -> Answer | None:
    reader = Reader()
    for at in range(0, len(data), cut):
        reader.feed(data[at : at + cut])
    if ends:
        reader.end()
    return reader.answer


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("cut", [1, 2, 7, 1 << 20])
def test_answer_is_read_regardless_of_how_it_is_split(name: str, cut: int) -> None:
    answer = read(WHOLE[name], cut=cut)
    assert answer is not None
    assert (answer.status, answer.body, answer.keeps) == (200, b"hello", True)


@pytest.mark.parametrize("name", WHOLE)
def test_truncated_answer_is_an_error(name: str) -> None:
    data = WHOLE[name]
    for end in range(len(data)):
        reader = Reader()
        reader.feed(data[:end])
        assert reader.answer is None, data[:end]
        with pytest.raises(HttpError) as caught:
            reader.end()
        assert caught.value.trouble is Trouble.RESET


def test_answer_without_a_length_ends_with_the_connection() -> None:
    data = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nhello"
    assert read(data) is None
    answer = read(data, ends=True)
    assert answer is not None
    assert (answer.body, answer.keeps) == (b"hello", False)
    assert answer.header("content-type") == "text/plain"
    assert answer.header("etag") is None


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
@pytest.mark.parametrize("header", ["", "Content-Length: 9\r\n"])
def test_answer_without_a_body_is_complete_at_once(status: str, header: str) -> None:
    answer = read(f"HTTP/1.1 {status}\r\n{header}\r\n".encode())
    assert answer is not None
    assert (answer.body, answer.keeps) == (b"", True)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n",
    ],
)
def test_connection_is_not_kept_after_close_http_1_0_or_extra_data(data: bytes) -> None:
    answer = read(data)
    assert answer is not None
    assert not answer.keeps


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 000 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\nC: d",
        b"HTTP/1.1 200 OK\r\nName\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nName : x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nName: x\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nName: x\x00y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 300,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx y: z\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\n" * 9,
    ],
)
def test_data_that_is_not_http_is_an_error_at_once(data: bytes) -> None:
    with pytest.raises(HttpError) as caught:
        read(data)
    assert caught.value.trouble is Trouble.MALFORMED


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"x" * (HEAD_BYTES_MAX + 1),
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * HEAD_BYTES_MAX,
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1),
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (BODY_BYTES_MAX + 1),
        CHUNKED + b"ffffffff\r\n",
        CHUNKED + b"80000\r\n" + b"x" * 0x80000 + b"\r\n80001\r\n",
        CHUNKED + b"0\r\n" + b"A: b\r\n" * HEAD_BYTES_MAX,
    ],
)
def test_oversized_answer_is_rejected(data: bytes) -> None:
    with pytest.raises(HttpError) as caught:
        read(data, cut=65_536)
    assert caught.value.trouble is Trouble.TOO_LARGE
