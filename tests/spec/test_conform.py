"""`forewarn conform`: our own endpoint keeps everything, the mock does not."""

import json
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler

import pytest

from forewarn.control.requests import failures
from forewarn.instants import HOUR, Micros, parse_instant
from forewarn.protocol.operations import Action
from forewarn.testing.client import (
    EVENTS_PATH,
    PATIENCE,
    Answer,
    Client,
    Headers,
    HttpClient,
)
from forewarn.testing.conformance.check import Failed, NotTried, Passed, Verdict
from forewarn.testing.conformance.checks import CHECKS
from forewarn.testing.conformance.examination import Examination, Finding
from forewarn.testing.conformance.report import Watched, report
from tests.spec import support
from tests.spec.conftest import EVERYTHING, everything
from tests.spec.mock_imitation import Mock, served
from tests.spec.small_servers import Careless, listening
from tests.spec.support import BentClient, ServedWorld, make_world
from tests.support.worlds import World

pytestmark = pytest.mark.system

DUE = parse_instant("2030-11-20T20:56:40Z")
"""When everything is to start that the mock announces."""


def undated(
    _method: str, _target: str, _headers: Headers, _body: bytes | None, answer: Answer
) -> Answer:
    """Make it the answer of a server that does not tell its time."""
    headers = tuple(header for header in answer.headers if header[0] != "Date")
    return replace(answer, headers=headers)


def findings_of(
    client: Client,
    *,
    approve: bool = True,
    polls: int = 0,
    pause: Callable[[], object] = lambda: None,
    now: Micros = DUE,
) -> list[Finding]:
    examination = Examination(client, approve=approve, pause=pause, now=lambda: now)
    return list(examination.run(polls))


def broken(findings: list[Finding]) -> dict[str, str]:
    return {
        finding.expected: finding.verdict.witness.complaint
        for finding in findings
        if isinstance(finding.verdict, Failed)
    }


def verdict_of(title: str, findings: list[Finding]) -> Verdict:
    [finding] = [finding for finding in findings if finding.expected == title]
    return finding.verdict


KEPT_IDS = "an event keeps its id when it is Started"
TIMELY = "an event does not start before its NotBefore"

MOCK_DEFECTS = {
    "paths have no case": "scheduledEvents",
    "other verbs are 405": "HEAD: expected 405, got 200",
    "unknown versions are refused": "expected 400, got 200",
    "older versions do not show later members": "at 2017-03-01: it shows Description",
    "the preview's names begin with _": "not ['_vmss_vm1']",
    "the header is required": "expected 400, got 200",
    "the first error decides": "expected 400, got 4",
    "forwarded requests are refused": "expected 400, got 200",
    "a refusal is JSON with a message": "<!doctype html>",
    "a missing header gets a fixed text": "expected b'{ \"error",
    "an unknown version gets the newest three": "does not say so",
    "the ETag is the incarnation": "as ETag, got None",
    "an equal tag gets 304": "expected 304, got 200",
    "a VM can read its name": "expected 200, got 404",
    "the instance has its own versions": "expected 200, got 404",
    "JSON has its content type, in UTF-8": "got 'application/json'",
    "an event's members and their order": "'Description', 'DurationInSeconds'",
    "ids are GUIDs in upper case": "is not a GUID in upper case",
    "NotBefore of a Scheduled event is RFC 1123": "2030-11-20T20:56:40Z",
    "NotBefore of a Started event is empty": "not ''",
    "malformed bodies are 400": "expected 400, got",
    "unknown ids are 400": "expected 400, got 200",
    "one bad entry refuses all": "expected 400, got 200",
    "an approval has an empty answer": "was answered with 200 b'{",
    "a POST without the header gets the error about it": "got 400",
    "an approval needs a version": "expected 400, got 200",
    "an approval needs the header": "expected 400, got 200",
    "no approval is forwarded": "expected 400, got 200",
    KEPT_IDS: "one event, two ids",
}
"""The known defects of the mock, each with a part of the expected message."""


def test_each_defect_of_the_mock_is_found(mock: tuple[Mock, str]) -> None:
    _, url = mock
    broken_checks = broken(findings_of(HttpClient(url)))
    for expected, part in MOCK_DEFECTS.items():
        assert part in broken_checks.get(expected, "it was not found"), expected
    assert set(broken_checks) == set(MOCK_DEFECTS)


def test_second_started_event_is_reported() -> None:
    """The documents of the mock if it is approved while it advances by itself."""
    mock = Mock()
    mock.show("Started")
    with served(mock) as url:
        broken_checks = broken(
            findings_of(HttpClient(url), polls=1, pause=lambda: mock.show("Started"))
        )
    assert "is Started too: one event, two ids" in broken_checks[KEPT_IDS]


def test_failure_can_replace_another_failure(endpoint: ServedWorld) -> None:
    """When a VM runs again and its host fails before the next poll (5.5)."""

    def fail_again(world: World) -> None:
        world.order(lambda work: failures.restore_vm(work, "m_3"))
        world.order(lambda work: failures.fail_host(work, "h3"))

    def fail() -> None:
        endpoint.do(fail_again)

    findings = findings_of(endpoint.client("m_0"), polls=1, pause=fail)
    assert broken(findings) == {}


def test_start_long_before_its_time_is_reported(mock: tuple[Mock, str]) -> None:
    """The Dev Timing of the mock announces minutes, and seconds pass.

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


def test_start_on_time_or_after_a_possible_approval_is_not_early(
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
        return verdict_of(TIMELY, findings)

    assert isinstance(verdict(DUE), Passed)
    server.show("Scheduled")
    server.event["Resources"] = ["vmss_vm1", "vmss_vm2"]
    assert isinstance(verdict(DUE - HOUR), NotTried)


def test_status_that_goes_backwards_is_reported(mock: tuple[Mock, str]) -> None:
    server, url = mock
    event = server.event
    assert event is not None
    statuses = ["Started", "Scheduled"]

    def go_on() -> None:
        server.incarnation += 1
        server.event = {**event, "EventStatus": statuses.pop(0)}

    findings = findings_of(HttpClient(url), approve=False, polls=2, pause=go_on)
    assert "is Scheduled" in broken(findings)["a status never goes back"]


def test_watched_documents_are_judged_like_requested_ones() -> None:
    """Null for an array, and a third status: of the mock, and not seen at once."""
    mock = Mock()
    bodies: list[bytes] = []
    with served(mock) as url:

        def go_on() -> None:
            mock.show("Scheduled")
            shown = json.loads(mock.document())
            event = {**shown["Events"][0], "EventStatus": "Completed"}
            bodies[:] = [
                json.dumps({**shown, "Events": [event]}, separators=(",", ":")).encode()
            ]
            if mock.incarnation > 2:
                bodies[:] = [b'{"DocumentIncarnation":4,"Events":null}']

        def bend(
            method: str, target: str, headers: Headers, _b: bytes | None, answer: Answer
        ) -> Answer:
            plain = method == "GET" and target.endswith("=2020-07-01")
            return replace(answer, body=bodies[0]) if bodies and plain else answer

        client = BentClient(HttpClient(url), bend)
        broken_checks = broken(findings_of(client, approve=False, polls=2, pause=go_on))
    assert "'Completed'" in broken_checks["EventStatus is Scheduled or Started"]
    array = broken_checks["Events is an array, empty without events"]
    assert "Events is None" in array


def test_approval_that_cancels_its_event_is_reported() -> None:
    """Once may be chance; with another event it is not."""
    mock = Mock("Scheduled", "Canceled")
    mock.show("Scheduled")
    events = ["Virtual machine is being moved."]

    def go_on() -> None:
        if events:
            mock.show("Scheduled")
            assert mock.event is not None
            mock.event["Description"] = events.pop()

    with served(mock) as url:
        broken_checks = broken(findings_of(HttpClient(url), polls=2, pause=go_on))
    assert (
        "were approved and then removed, but never shown as Started"
        in broken_checks["an approved event is shown as Started"]
    )


def whole_life(world: World, *, approve: bool) -> list[Finding]:
    """Examine an endpoint while everything happens to it that may happen."""
    steps: list[Callable[[World], object]] = [
        lambda world: support.maintain(world, "h1", action=Action.FREEZE),
        lambda world: support.approve_all(world, "b_0"),
        *[lambda world: world.advance("5m")] * 4,
        lambda world: [support.reboot(world, name) for name in ("m_0", "m_3")],
        *[lambda world: world.advance("5m")] * 4,
        lambda world: support.terminate(world, "m_1"),
        lambda world: support.evict(world, "m_2"),
        lambda world: support.reboot(world, "m_0"),
        *[lambda world: world.advance("5m")] * 4,
        lambda world: support.reboot(world, "m_0"),
        *[lambda world: world.advance("5m")] * 8,
    ]

    def pause() -> None:
        world.advance("1s")
        if turn := next(turns, None):
            turn(world)

    turns = iter(steps)
    client = support.WorldClient(world, "m_0")
    examination = Examination(
        client, approve=approve, pause=pause, now=lambda: world.now
    )
    return list(examination.run(len(steps)))


def test_our_endpoint_keeps_every_clause() -> None:
    """Each check but that of a limit has seen what it is about, approving or not."""
    findings = [
        *whole_life(make_world(EVERYTHING), approve=True),
        *whole_life(make_world(EVERYTHING), approve=False),
        *findings_of(support.WorldClient(everything(), "m_0")),
    ]
    assert broken(findings) == {}
    passed = {
        finding.expected for finding in findings if isinstance(finding.verdict, Passed)
    }
    missing = {check.title for check in CHECKS} - passed
    assert missing == {"a burst meets 429 with Retry-After"}
    clauses = [
        finding.clause
        for finding in report("x", findings, Watched(documents=1)).findings
    ]
    assert clauses == sorted(clauses, key=lambda c: [int(n) for n in c.split(".")])
    assert all(finding.expected for finding in findings)


def test_each_defect_of_a_careless_server_is_a_finding() -> None:
    with listening(Careless) as url:
        broken_checks = broken(findings_of(HttpClient(url)))
    assert "expected 400, got 200" in broken_checks["malformed bodies are 400"]
    assert "got no answer" in broken_checks["other verbs are 405"]


def test_client_that_expects_100_continue_also_waits_out_a_limit() -> None:
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


def test_no_check_passes_without_a_document() -> None:
    """A client that is rate-limited all the time sees a valid 429 and nothing else."""

    class Limited(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"error":"Too many requests"}'
            self.send_response(429)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Retry-After", "1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if self.command != "HEAD" else b"")

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815
        do_PATCH = do_OPTIONS = do_HEAD = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    waited: list[float] = []
    with listening(Limited) as url:
        client = HttpClient(url, pause=waited.append)
        examination = Examination(client, approve=True, now=lambda: DUE)
        findings = list(examination.run(0))
    assert broken(findings) == {}
    result = report(url, findings, Watched(documents=len(examination.seen.newest)))
    assert not result.passed
    # It was patient once.
    assert len(waited) == PATIENCE
