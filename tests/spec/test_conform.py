"""`forewarn conform`: our own endpoint keeps everything, the mock does not."""

import json
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer

import pytest

from forewarn.cli import main
from forewarn.control import failures
from forewarn.instants import HOUR, Micros, parse_instant
from forewarn.sim.world import World
from forewarn.testing.checks import LIFE_CHECKS, run_checks
from forewarn.testing.client import (
    EVENTS_PATH,
    Answer,
    Client,
    Headers,
    HttpClient,
)
from forewarn.testing.conformance import Finding, Verdict, examine, report
from forewarn.testing.watching import WatchingClient
from tests.spec.mock_imitation import Mock, served
from tests.spec.support import BentClient, ServedWorld

pytestmark = pytest.mark.system

DUE = parse_instant("2030-11-20T20:56:40Z")
"""When everything is to start that the mock announces."""


@pytest.fixture
def mock() -> Iterator[tuple[Mock, str]]:
    mock = Mock()
    mock.show("Scheduled")
    with served(mock) as url:
        yield mock, url


def undated(
    _method: str, _target: str, _headers: Headers, _body: bytes | None, answer: Answer
) -> Answer:
    """Make it the answer of a server that does not tell its time."""
    kept = tuple(each for each in answer.headers if each[0] != "Date")
    return replace(answer, headers=kept)


def findings_of(
    client: Client,
    *,
    approve: bool = True,
    polls: int = 0,
    pause: Callable[[], object] = lambda: None,
    now: Micros = DUE,
) -> list[Finding]:
    return list(
        examine(client, approve=approve, polls=polls, pause=pause, now=lambda: now)
    )


def broken(findings: list[Finding]) -> dict[str, str]:
    return {
        finding.expected: finding.seen
        for finding in findings
        if finding.verdict is Verdict.FAILED
    }


KEPT_IDS = "an event keeps its id, none returns"
TIMELY = "nothing starts before its time"

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
    KEPT_IDS: "one event, two ids",
}
"""What was seen of the mock, each with a part of what must be said about it."""


def test_each_defect_of_the_mock_is_found(mock: tuple[Mock, str]) -> None:
    _, url = mock
    found = broken(findings_of(HttpClient(url)))
    for expected, part in MOCK_DEFECTS.items():
        assert part in found.get(expected, "it was not found"), expected


def test_a_second_started_state_is_found() -> None:
    """What the mock shows when it is approved while it goes on by itself."""
    mock = Mock()
    mock.show("Started")
    with served(mock) as url:
        found = broken(
            findings_of(HttpClient(url), polls=1, pause=lambda: mock.show("Started"))
        )
    assert "is Started too: one event, two ids" in found[KEPT_IDS]


def test_a_failure_may_take_the_place_of_another(endpoint: ServedWorld) -> None:
    """When a VM runs again and its host fails before the next poll (5.5)."""

    def fail_again(world: World) -> None:
        world.order(lambda work: failures.restore_vm(work, "m_3"))
        world.order(lambda work: failures.fail_host(work, "h3"))

    def fail() -> None:
        endpoint.do(fail_again)

    findings = findings_of(endpoint.client("m_0"), polls=1, pause=fail)
    assert broken(findings) == {}
    [kept] = [each for each in findings if each.expected == KEPT_IDS]
    assert kept.verdict is Verdict.PASSED


def test_a_start_long_before_its_time_is_found(mock: tuple[Mock, str]) -> None:
    """What the mock does with its Dev Timing: minutes are told, and seconds pass.

    A server's own clock counts, where it tells it; here ours is ahead.
    """
    server, url = mock
    for client, now in (
        (HttpClient(url), DUE),
        (BentClient(HttpClient(url), undated), DUE - HOUR),
    ):
        server.show("Scheduled")
        findings = findings_of(
            client,
            approve=False,
            polls=1,
            pause=lambda: server.show("Started"),
            now=now,
        )
        assert "before its NotBefore" in broken(findings)[TIMELY]


def test_what_starts_at_its_time_or_may_have_been_approved_is_not_early(
    mock: tuple[Mock, str],
) -> None:
    server, url = mock
    assert server.event is not None

    def verdict(now: Micros) -> Verdict:
        findings = findings_of(
            BentClient(HttpClient(url), undated),
            approve=False,
            polls=1,
            pause=lambda: server.show("Started"),
            now=now,
        )
        [finding] = [each for each in findings if each.expected == TIMELY]
        return finding.verdict

    assert verdict(DUE) is Verdict.PASSED
    server.show("Scheduled")
    server.event["Resources"] = ["vmss_vm1", "vmss_vm2"]
    assert verdict(DUE - HOUR) is Verdict.NOT_TRIED


def test_states_set_backwards_are_found(mock: tuple[Mock, str]) -> None:
    server, url = mock
    watching = WatchingClient(HttpClient(url), now=lambda: DUE)
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
        found = broken(findings_of(HttpClient(url), polls=1))
    assert (
        "went without being shown Started" in found["what is approved is seen Started"]
    )


def test_our_endpoint_keeps_every_clause(endpoint: ServedWorld) -> None:
    findings = findings_of(endpoint.client("m_0"), polls=2)
    assert broken(findings) == {}
    tried = [each for each in findings if each.verdict is Verdict.PASSED]
    assert len(tried) >= 39
    clauses = [each.clause for each in report("x", findings).findings]
    assert clauses == sorted(clauses, key=lambda c: [int(n) for n in c.split(".")])
    assert all(each.expected for each in findings)


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
        found = broken(findings_of(HttpClient(url)))
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


@pytest.mark.parametrize("place", ["nowhere/report.md", ""])
def test_a_report_that_cannot_be_written_is_told_of_before_anything_is_asked(
    mock: tuple[Mock, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    place: str,
) -> None:
    server, url = mock
    event = server.event
    words = ["conform", url, "--approve", "--report", str(tmp_path / place)]
    assert main(words) == 2
    told = capsys.readouterr()
    assert "cannot be written" in told.err
    assert (told.out, server.event) == ("", event)


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:99999", "ftp://x"])
def test_what_is_no_url_is_told_with_what_to_do(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conform", url]) == 2
    told = capsys.readouterr().err
    assert "is not a URL such as" in told
    assert "hint: name the host and port" in told


def test_nobody_there_is_status_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "http://127.0.0.1:9"]) == 3
    assert "cannot be reached" in capsys.readouterr().err
    assert main(["conform", "http://127.0.0.1:9", "--watch", "soon"]) == 2
