"""`forewarn conform` as a command: lines, reports, statuses, Ctrl-C."""

import json
import os
import signal
from pathlib import Path
from socketserver import BaseRequestHandler

import pytest

from forewarn.cli import conform, main
from forewarn.instants import parse_instant
from forewarn.testing.client import EVENTS_PATH
from forewarn.testing.conformance.traffic_questions import BURST
from tests.spec.mock_imitation import Mock
from tests.spec.small_servers import Careless, listening

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    "answer",
    [
        b"\x00\xff\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
    ],
)
def test_response_that_is_not_http_gives_status_3(
    answer: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(answer)

    with listening(Broken) as url:
        assert main(["conform", url]) == 3
    assert "no HTTP answer" in capsys.readouterr().err


def test_truncated_answer_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The endpoint is there, so there is a report, though it has no document."""

    class Cut(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            head = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n"
            self.request.sendall(head + b"{")

    with listening(Cut) as url:
        assert main(["conform", url]) == 1
    out = capsys.readouterr().out
    assert "1.12  fail       each answer is complete: GET /metadata" in out
    assert "no document was seen" in out


def test_command_reports_findings_and_fails(
    mock: tuple[Mock, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, url = mock
    file = tmp_path / "report.md"
    assert main(["conform", url, "--report", str(file)]) == 1
    out = capsys.readouterr().out
    assert "fail       the header is required" in out
    assert "1.5   not tried  Terminate is hidden before 2019-01-01: needs a Term" in out
    assert " -> " not in out
    assert "| 1.6 | the header is required | fail |" in file.read_text("utf-8")
    assert main(["conform", url, "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert (value["format"], value["passed"]) == (2, False)


def test_command_shows_evidence_on_request(
    mock: tuple[Mock, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, url = mock
    file = tmp_path / "report.json"
    main(["conform", url, "--evidence", "--report", str(file)])
    out = capsys.readouterr().out
    assert "GET /metadata/scheduledEvents?api-version=2020-07-01 -> 404 b'<" in out
    value = json.loads(file.read_text("utf-8"))
    exchanges = {exchange["number"]: exchange for exchange in value["exchanges"]}
    for finding in value["findings"]:
        assert bool(finding["evidence"]) == (finding["verdict"] != "not tried")
        assert bool(finding["needs"]) == (finding["verdict"] == "not tried")
        for witness in finding["evidence"]:
            assert witness["exchanges"]
            assert all(number in exchanges for number in witness["exchanges"])
    [broken] = [
        finding
        for finding in value["findings"]
        if finding["expected"] == "ids are GUIDs in upper case"
    ]
    exchange = exchanges[broken["evidence"][0]["exchanges"][0]]
    assert (
        json.loads(exchange["answer"]["body"])["Events"][0]["EventStatus"]
        == "Scheduled"
    )
    assert parse_instant(exchange["at"]) > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_the_watch_and_the_report_is_written(
    number: signal.Signals,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also in the middle of a read, of which the burst of 1.9 has fewer in a row."""
    reads = [0]

    class Interrupting(Careless):
        def do_GET(self) -> None:  # noqa: N802 - the name that http.server looks for
            plain = self.path == f"{EVENTS_PATH}?api-version=2020-07-01"
            reads[0] = reads[0] + 1 if plain else 0
            if reads[0] == 2 * BURST:
                os.kill(os.getpid(), number)
            super().do_GET()

    monkeypatch.setattr(conform, "POLL_SECONDS", 0.0001)
    with listening(Interrupting) as url:
        assert main(["conform", url, "--watch", "24h"]) == 1
    summary = capsys.readouterr().out.splitlines()[-1]
    assert summary.endswith("; the watch ended early: it was interrupted")


def test_invalid_speed_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    for speed in ("0", "-1", "fast", "nan", "inf"):
        assert main(["conform", "http://127.0.0.1:9", "--speed", speed]) == 2
        assert f"--speed: '{speed}' is not a number" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["nowhere/report.md", ""])
def test_unwritable_report_is_reported_before_the_first_request(
    mock: tuple[Mock, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    place: str,
) -> None:
    server, url = mock
    event = server.event
    arguments = ["conform", url, "--approve", "--report", str(tmp_path / place)]
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert "cannot be written" in printed.err
    assert (printed.out, server.event) == ("", event)


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:99999", "ftp://x"])
def test_invalid_url_is_refused_with_a_hint(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conform", url]) == 2
    message = capsys.readouterr().err
    assert "is not a URL such as" in message
    assert "hint: Use the host and port" in message


def test_unreachable_endpoint_gives_status_3(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["conform", "http://127.0.0.1:9"]) == 3
    assert "cannot reach the endpoint" in capsys.readouterr().err
    assert main(["conform", "http://127.0.0.1:9", "--watch", "soon"]) == 2
