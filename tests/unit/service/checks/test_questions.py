"""Checks that ask real servers and programs: honest, slow, lying and hostile ones."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.checks.model import Judged
from forewarn.clock import SystemClock
from forewarn.drivers.programs import PATH
from forewarn.instants import SECOND
from forewarn.service.checks import limits
from forewarn.service.checks.programs import Programs
from forewarn.service.checks.questions import ask, authorization
from forewarn.service.settings_model import CheckSettings
from tests.support.certificates import certificate_in, needs_openssl
from tests.unit.service.checks.servers import Asked, Server, page, prometheus, serving

pytestmark = pytest.mark.system

CLOCK = SystemClock()
SECRET = "hush-0123456789"


def asked(kind: str, **more: Any) -> tuple[str, str]:
    """Ask a check, and return its outcome and reason."""
    options: dict[str, Any] = {"timeout": 10 * SECOND}
    if kind == "promql":
        options["below"] = 0.01
    check = CheckSettings(name="c", kind=kind, **{**options, **more})
    judged: Judged = ask(check, clock=CLOCK, programs=Programs(CLOCK))
    assert len(judged.reason) <= 300
    assert judged.reason.isprintable()
    return judged.outcome.value, judged.reason


@pytest.fixture
def errors() -> Iterator[Server]:
    """Serve a Prometheus with one good and one bad series."""
    with serving(prometheus({"errors": 0.001, "crashes": 7})) as server:
        yield server


# Prometheus


def test_query_of_prometheus_passes_and_fails(errors: Server) -> None:
    answer = asked("promql", url=errors.url, query="errors")
    assert answer == ("pass", '0.001 of errors{instance="h1:9100"}, below 0.01')
    answer = asked("promql", url=errors.url, query="scalar(crashes)")
    assert answer == ("fail", "7, not below 0.01")


def test_query_without_series_or_with_a_mistake_is_unknown(errors: Server) -> None:
    answer = asked("promql", url=errors.url, query="weather")
    assert answer == ("unknown", "the result of the query is empty")
    outcome, reason = asked("promql", url=errors.url, query="sum(errors")
    assert outcome == "unknown"
    assert reason.startswith("bad_data: invalid parameter")


def test_query_goes_below_the_path_of_the_url_with_its_headers(
    errors: Server, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    answer = asked(
        "promql",
        url=f"{errors.url}/prom/",
        query='sum(rate(x{a="b c"}[5m]))',
        authorization_file=str(file),
        headers=(("X-Scope-OrgID", "ops"),),
    )
    assert answer[0] == "unknown"
    (request,) = errors.asked
    path, _, query = request.target.partition("?")
    assert path == "/prom/api/v1/query"
    assert query == "query=sum%28rate%28x%7Ba%3D%22b+c%22%7D%5B5m%5D%29%29"
    assert request.headers["Authorization"] == f"Bearer {SECRET}"
    assert request.headers["X-Scope-OrgID"] == "ops"


# Servers that do not answer well


def hang(wire: socket.socket, asked: Asked) -> None:
    """Send nothing until the client leaves."""
    wire.recv(1)


def drip(wire: socket.socket, asked: Asked) -> None:
    """Send a byte of the head ever again, so that no single read lasts long."""
    wire.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        wire.sendall(b"x")
        threading.Event().wait(0.05)


def flood(wire: socket.socket, asked: Asked) -> None:
    """Send a body without an end."""
    wire.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        wire.sendall(b"0" * 65_536)


def garble(wire: socket.socket, asked: Asked) -> None:
    """Send something that is not HTTP, with control characters."""
    wire.sendall(b"\x1b[2J\x00 SSH-2.0\r\n\r\n")


def promise(wire: socket.socket, asked: Asked) -> None:
    """Promise more than is sent."""
    wire.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n[")


@pytest.mark.parametrize("answer", [hang, drip, flood, garble, promise])
@pytest.mark.parametrize("kind", ["promql", "http"])
def test_server_that_gives_no_answer_leaves_the_outcome_unknown(
    answer: Any, kind: str
) -> None:
    began = CLOCK.monotonic()
    with serving(answer) as server:
        more = {"query": "errors"} if kind == "promql" else {}
        outcome, reason = asked(kind, url=server.url, timeout=SECOND, **more)
    assert outcome == "unknown", reason
    assert CLOCK.monotonic() - began < 8


def test_unreachable_server_and_unknown_name_are_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    outcome, reason = asked("http", url=url)
    assert outcome == "unknown"
    assert "connection refused" in reason
    assert asked("http", url="http://no-such-name.invalid")[0] == "unknown"


def test_huge_answer_of_prometheus_is_unknown() -> None:
    body = b'{"status":"success","x":"' + b"0" * limits.BODY_BYTES_MAX + b'"}'
    with serving(page(200, body)) as server:
        outcome, reason = asked("promql", url=server.url, query="errors")
    assert outcome == "unknown"
    assert str(limits.BODY_BYTES_MAX) in reason


def test_redirect_is_not_followed_and_shows_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(SECRET)
    with serving(page(200, b"login")) as other:
        away = page(302, b"", f"Location: {other.url}/login")
        with serving(away) as server:
            answer = asked("http", url=server.url, authorization_file=str(file))
        assert other.asked == []
    assert answer == ("unknown", "HTTP status 302: redirects are not followed")


def test_text_of_a_page_is_found(errors: Server) -> None:
    with serving(page(200, b"3 of 3 ready")) as server:
        assert asked("http", url=server.url, contains="ready")[0] == "pass"
        assert asked("http", url=server.url, contains="steady")[0] == "fail"
        assert asked("http", url=server.url, status=204)[0] == "fail"


@needs_openssl
def test_certificate_must_be_trusted(tmp_path: Path) -> None:
    own = certificate_in(tmp_path)
    with serving(page(200), tls=own.server()) as server:
        trusted = asked("http", url=server.url, ca_file=str(own.certificate))
        assert trusted == ("pass", "HTTP status 200")
        outcome, reason = asked("http", url=server.url)
        assert outcome == "unknown"
        assert "certificate" in reason
        plain = server.url.replace("https", "http")
        assert asked("http", url=plain)[0] == "unknown"
    with serving(page(200)) as server:
        tls = server.url.replace("http", "https")
        assert asked("http", url=tls)[0] == "unknown"


# Secrets


def test_authorization_is_a_bearer_token_or_a_whole_value(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"  {SECRET}\n")
    assert authorization(str(file)) == f"Bearer {SECRET}"
    file.write_text("Basic cHJvbTpodXNo\n")
    assert authorization(str(file)) == "Basic cHJvbTpodXNo"


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"a\r\nX: b", b"\xff\xfe"])
def test_file_that_is_no_secret_is_unknown_and_never_shown(
    content: bytes, tmp_path: Path, errors: Server
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    outcome, reason = asked("http", url=errors.url, authorization_file=str(file))
    assert outcome == "unknown"
    assert str(file) in reason
    assert errors.asked == []
    missing = str(tmp_path / "none")
    assert asked("http", url=errors.url, authorization_file=missing) == (
        "unknown",
        f"{missing} cannot be read: No such file or directory",
    )


# Programs


def run(script: str, **more: Any) -> tuple[str, str]:
    return asked("command", program=("/bin/sh", "-c", script), **more)


def test_exit_status_and_last_line_of_a_program_count() -> None:
    assert run("echo 3 disks; echo all well") == ("pass", "exit status 0: all well")
    assert run("echo bad >&2; exit 1") == ("fail", "exit status 1: bad")
    assert run("exit 7") == ("unknown", "exit status 7, neither 0 nor 1")
    assert run("kill -9 $$") == ("unknown", "ended by signal 9")
    missing = asked("command", program=("/no/such/program",))
    assert missing == (
        "unknown",
        "/no/such/program cannot be run: No such file or directory",
    )


def test_program_inherits_no_variable_of_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FOREWARN_ADMIN_TOKEN", "secret")
    assert run("echo ${FOREWARN_ADMIN_TOKEN-none} in $PATH") == (
        "pass",
        f"exit status 0: none in {PATH}",
    )


def test_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "children"
    outcome, reason = run(
        f"sleep 300 & echo $! > {mark}; trap '' TERM; sleep 300", timeout=SECOND
    )
    assert (outcome, reason) == ("unknown", "/bin/sh did not end within 1 s")
    assert is_over(int(mark.read_text()))


def test_child_that_keeps_the_output_open_does_not_delay_the_result(
    tmp_path: Path,
) -> None:
    mark = tmp_path / "child"
    began = CLOCK.monotonic()
    assert run(f"sleep 300 & echo $! > {mark}; echo done") == (
        "pass",
        "exit status 0: done",
    )
    assert CLOCK.monotonic() - began < 8
    assert is_over(int(mark.read_text()))


def test_output_of_megabytes_is_discarded_except_for_its_end() -> None:
    assert run("yes 0123456789 | head -c 20000000; echo; echo end") == (
        "pass",
        "exit status 0: end",
    )
    outcome, reason = run("head -c 9000000 /dev/zero | tr '\\0' '\\33'; exit 1")
    assert (outcome, reason) == ("fail", "exit status 1")


def test_program_that_prints_without_end_is_killed() -> None:
    assert run("yes", timeout=SECOND) == ("unknown", "/bin/sh did not end within 1 s")


def test_programs_are_killed_when_the_service_stops() -> None:
    programs = Programs(CLOCK)
    programs.stop()
    assert programs.run(("/bin/true",), seconds=5).reason == "the service is stopping"


def is_over(pid: int) -> bool:
    """Return whether a process ends within seconds; a zombie has ended."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        threading.Event().wait(0.05)
    return False
