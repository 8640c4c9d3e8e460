"""`forewarn conform`: our own endpoint keeps everything, the mock does not."""

import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer

import pytest

from forewarn.cli import main
from forewarn.testing.checks import LIFE_CHECKS, run_checks
from forewarn.testing.client import EVENTS_PATH, HttpClient
from forewarn.testing.conformance import Finding, Verdict, examine, report
from forewarn.testing.watching import WatchingClient
from tests.spec.mock_imitation import Mock, served
from tests.spec.support import ServedWorld

pytestmark = pytest.mark.system


@pytest.fixture
def mock() -> Iterator[tuple[Mock, str]]:
    mock = Mock()
    mock.show("Scheduled")
    with served(mock) as url:
        yield mock, url


def broken(findings: list[Finding]) -> dict[str, str]:
    return {
        finding.expected: finding.seen
        for finding in findings
        if finding.verdict is Verdict.FAILED
    }


MOCK_DEFECTS = {
    "paths have no case, others are 404": "scheduledEvents",
    "other verbs are 405": "no JSON object",
    "anything else is no version": "expected 400, got 200",
    "a version shows its members": "Description at 2017-03-01",
    "the header is required": "expected 400, got 200",
    "forwarded requests are refused": "expected 400, got 200",
    "errors say what clients look for": 'expected b\'{ "error"',
    "an equal tag gets 304": "as ETag, got None",
    "a VM learns its own name": "expected 200, got 404",
    "answers are JSON in UTF-8": "got 'application/json'",
    "two members, compact": "not compact",
    "an event's members and their order": "'Description', 'DurationInSeconds'",
    "ids are GUIDs in upper case": "no GUID in upper case",
    "NotBefore is RFC 1123, then empty": "2030-11-20T20:56:40Z",
    "malformed bodies are 400": "expected 400, got",
    "unknown ids are 400": "expected 400, got 200",
    "one bad entry refuses all": "expected 400, got 200",
    "repeats are 200": "is answered with",
    "an event keeps its id, none returns": "one event, two ids",
}
"""What was seen of the mock, each with a part of what must be said about it."""


def test_each_defect_of_the_mock_is_found(mock: tuple[Mock, str]) -> None:
    _, url = mock
    found = broken(
        list(examine(HttpClient(url), approve=True, polls=0, pause=lambda: None))
    )
    for expected, part in MOCK_DEFECTS.items():
        assert part in found.get(expected, "it was not found"), expected


def test_states_set_backwards_are_found(mock: tuple[Mock, str]) -> None:
    server, url = mock
    watching = WatchingClient(HttpClient(url))
    event = server.event
    assert event is not None
    for status in ("Started", "Scheduled"):
        server.incarnation += 1
        server.event = {**event, "EventStatus": status}
        watching.watch(1, lambda: None)
    failed = [
        each.check.title
        for each in run_checks(watching, LIFE_CHECKS)
        if not each.passed and not each.skipped
    ]
    assert failed == ["nothing goes backwards"]


def test_a_cancelling_approval_is_found() -> None:
    mock = Mock("Scheduled", "Canceled")
    mock.show("Scheduled")
    with served(mock) as url:
        found = broken(
            list(examine(HttpClient(url), approve=True, polls=1, pause=lambda: None))
        )
    assert (
        "went without being shown Started" in found["what is approved is seen Started"]
    )


def test_our_endpoint_keeps_every_clause(endpoint: ServedWorld) -> None:
    findings = list(
        examine(endpoint.client("m_0"), approve=True, polls=2, pause=lambda: None)
    )
    assert broken(findings) == {}
    tried = [each for each in findings if each.verdict is Verdict.PASSED]
    assert len(tried) >= 39
    clauses = [each.clause for each in report("x", findings).findings]
    assert clauses == sorted(clauses, key=lambda c: [int(n) for n in c.split(".")])


@contextmanager
def listening(handler: type[BaseRequestHandler]) -> Generator[str]:
    """Serve with a handler on loopback; yield its URL."""
    server = TCPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Careless(BaseHTTPRequestHandler):
    """Answers whatever it is sent with 200, as servers of ten lines do.

    For verbs that it was not written for it hangs up without a word.
    """

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"DocumentIncarnation":1,"Events":[]}')

    do_POST = do_GET  # noqa: N815 - the name that http.server looks for

    def do_PUT(self) -> None:
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def test_whatever_a_careless_server_does_is_a_finding() -> None:
    with listening(Careless) as url:
        found = broken(
            list(examine(HttpClient(url), approve=True, polls=0, pause=lambda: None))
        )
    assert "expected 400, got 200" in found["malformed bodies are 400"]
    assert "there was no answer" in found["other verbs are 405"]


@pytest.mark.parametrize(
    "answer",
    [
        b"\x00\xff\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{",
    ],
)
def test_what_is_no_http_is_status_3(
    answer: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(answer)

    with listening(Broken) as url:
        assert main(["conform", url]) == 3
    assert "no HTTP answer" in capsys.readouterr().err


def test_a_client_that_waits_for_a_100_is_patient_too() -> None:
    statuses = [429, 400]

    class Limited(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # which has it answer with 100 by itself

        def do_POST(self) -> None:
            self.rfile.read(1)
            self.send_response(statuses.pop(0))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    waited: list[float] = []
    with listening(Limited) as url:
        client = HttpClient(url, pause=waited.append)
        goes_on, answer = client.ask_first(EVENTS_PATH, b"{")
    assert (goes_on, answer.status, len(waited)) == (True, 400, 1)


def test_the_command_reports_and_fails(
    mock: tuple[Mock, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, url = mock
    file = tmp_path / "report.md"
    assert main(["conform", url, "--report", str(file)]) == 1
    out = capsys.readouterr().out
    assert "fail       the header is required" in out
    assert "not tried" in out
    assert "| 1.6 | the header is required | fail |" in file.read_text("utf-8")
    assert main(["conform", url, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["passed"] is False


def test_nobody_there_is_status_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "http://127.0.0.1:9"]) == 3
    assert "cannot be reached" in capsys.readouterr().err
    assert main(["conform", "ftp://x"]) == 2
    assert main(["conform", "http://127.0.0.1:9", "--watch", "soon"]) == 2
