"""Test `forewarn conform` with servers that send invalid or endless responses.

Each is a finding with its bytes, and none of them holds the command for long.
"""

import json
from socketserver import BaseRequestHandler

import pytest

from forewarn.cli import conform, main
from forewarn.clock import SystemClock
from forewarn.testing import client as clients
from forewarn.testing.answers import BrokenAnswerError, How
from forewarn.testing.client import EVENTS_PATH, HttpClient
from forewarn.testing.conformance.examination import SLOW_MAX
from tests.spec.small_servers import dripping, listening

pytestmark = pytest.mark.system

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BODY = b'{"DocumentIncarnation":1,"Events":[]}'

MALFORMED = {
    b"-5\\r\\n": CHUNKED + b"-5\r\n{}\r\n0\r\n\r\n",
    b"+25\\r\\n": CHUNKED + b"+25\r\n" + BODY + b"\r\n0\r\n\r\n",
    b"2_5\\r\\n": CHUNKED + b"2_5\r\n" + BODY + b"\r\n0\r\n\r\n",
    b"'37, 36'": OK + b"Content-Length: 37\r\nContent-Length: 36\r\n\r\n" + BODY,
    b"'-37'": OK + b"Content-Length: -37\r\n\r\n" + BODY,
    b"'3_7'": OK + b"Content-Length: 3_7\r\n\r\n" + BODY,
}
"""Answers, by what must be said of them."""


@pytest.mark.parametrize("part", MALFORMED)
def test_malformed_answer_is_reported_with_its_bytes(
    part: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    class Malformed(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(MALFORMED[part])

    with listening(Malformed) as url:
        assert main(["conform", url]) == 1
        out = capsys.readouterr().out
        [line] = [line for line in out.splitlines() if "is well-formed" in line]
        assert line.startswith("1.12  fail ")
        assert part.decode() in line
        assert main(["conform", url, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    broken = next(
        exchange["broken"] for exchange in document["exchanges"] if "broken" in exchange
    )
    assert broken["how"] == "malformed"
    assert broken["body"].encode() == MALFORMED[part]


def test_huge_retry_after_causes_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(conform, "POLL_SECONDS", 0.001)
    count = [0]

    class Limited(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            count[0] += 1
            length = b"Content-Length: %d\r\n\r\n" % len(BODY)
            limited = b"HTTP/1.1 429 No\r\nRetry-After: " + b"9" * 5000 + b"\r\n"
            self.request.sendall((limited if count[0] % 9 == 0 else OK) + length + BODY)

    with listening(Limited) as url:
        assert main(["conform", url]) == 1
    assert "conform" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("beginning", "drops"),
    [
        (b"", OK + b"Server: " + b"x" * 9999),
        (OK + b"Content-Length: 99999\r\n\r\n", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (CHUNKED + b"0\r\n", b"A: b\r\n"),
        (CHUNKED + b"5;", b"x"),
    ],
    ids=["head", "body", "interim answers", "trailers", "chunk extension"],
)
def test_dripping_server_is_reported_soon(
    beginning: bytes,
    drops: bytes,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a few such answers nothing more is asked, but there is a report."""
    monkeypatch.setattr(clients, "ANSWER_SECONDS", 0.2)
    clock = SystemClock()
    began = clock.monotonic()
    with dripping(beginning, drops, pause=0.02) as url:
        assert main(["conform", url, "--watch", "1h"]) == 1
    assert clock.monotonic() - began < 60 * SLOW_MAX * 0.2
    out = capsys.readouterr().out
    [line] = [line for line in out.splitlines() if "each answer is complete" in line]
    assert line.startswith("1.12  fail ")
    assert "did not end in 0.2 s" in line
    assert "needs an endpoint whose answers end in time" in out
    assert f"the watch ended early: {SLOW_MAX} answers did not end" in out


def test_slow_answer_is_waited_for_the_first_time_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "LATER_SECONDS", 0.2)
    answers = [OK + b"Content-Length: 2\r\n\r\n{}", b""]

    class Late(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(answers.pop(0))
            # Until the other end has gone.
            self.request.recv(1)

    with listening(Late) as url:
        client = HttpClient(url)
        assert client.ask("GET", EVENTS_PATH).body == b"{}"
        with pytest.raises(TimeoutError, match=r"no answer in 0\.2 s"):
            client.ask("GET", EVENTS_PATH)


def test_bytes_after_a_response_start_the_next_response() -> None:
    class Twice(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(OK + b"Content-Length: 1\r\n\r\n{}")
            self.request.recv(65536)

    with listening(Twice) as url:
        sent = clients.Sent(target=EVENTS_PATH)
        answers, error = HttpClient(url).ask_in_turn((sent, sent))
    assert [answer.body for answer in answers] == [b"{"]
    assert str(error) == "no HTTP answer: b'}'"


def test_reset_during_an_answer_counts_as_truncation() -> None:
    class Reset(BaseRequestHandler):
        def handle(self) -> None:
            # Unread data turns the end of a connection into a reset.
            self.request.recv(1)
            self.request.sendall(OK)

    with (
        listening(Reset) as url,
        pytest.raises(BrokenAnswerError) as raised,
    ):
        HttpClient(url).ask("GET", EVENTS_PATH)
    assert raised.value.how is How.CUT
