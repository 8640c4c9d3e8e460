"""Answers of a service to its caller, and output to a terminal."""

import contextlib
import socket
import threading
from collections.abc import Callable, Generator

import pytest

from forewarn.cli import client, output
from tests.unit.cli.conftest import Ended

Run = Callable[..., Ended]


@contextlib.contextmanager
def answering(answer: bytes) -> Generator[str]:
    """Serve this answer to every request."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def http(status: str, body: str, kind: str = "text/plain") -> bytes:
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


@pytest.mark.parametrize(
    "answer",
    [
        http("200 OK", "<p>welcome</p>"),
        http("404 Not Found", "nothing"),
        http("404 Not Found", '{"detail": "nothing"}'),
    ],
)
def test_server_without_the_operator_api_is_reported(
    forewarn: Run, answer: bytes
) -> None:
    with answering(answer) as url:
        ended = forewarn("operations", "--url", url)
    assert ended.status == 3
    assert "is not forewarn's operator API" in ended.err


def test_request_without_an_answer_is_reported_as_possibly_effective(
    forewarn: Run,
) -> None:
    with answering(b"") as url:
        ended = forewarn("reboot", "web_0", "--url", url)
        assert ended.status == 3
        assert "it may have taken effect" in ended.err
        assert "Repeat the command with FOREWARN_IDEMPOTENCY_KEY=" in ended.err
        ended = forewarn("check", "run", "no-alarm", "--url", url)
        assert ended.status == 3
        assert "after the request was sent; it changes nothing" in ended.err
        assert "IDEMPOTENCY" not in ended.err
        ended = forewarn("operations", "--url", url)
        assert ended.status == 3
        assert "cannot be reached" in ended.err
        assert "Errno" not in ended.err


def test_error_event_in_a_stream_is_reported(forewarn: Run) -> None:
    body = 'event: error\ndata: {"error": "the disk is full", "hint": "look"}\n\n'
    with answering(http("200 OK", body, "text/event-stream")) as url:
        ended = forewarn("events", "--watch", "--url", url)
    assert (ended.status, ended.err) == (
        3,
        "forewarn: the disk is full\n  hint: look\n",
    )


def test_path_segments_are_quoted() -> None:
    assert client.part("../a?b#c/d") == "..%2Fa%3Fb%23c%2Fd"


@pytest.mark.parametrize("has_color", [True, False])
def test_terminal_output_is_colored_unless_disabled(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_color: bool,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not has_color:
        monkeypatch.setenv("NO_COLOR", "1")
    output.table("nothing", ("ID", "STATE"), [("op-[red]", "Failed")])
    printed = capsys.readouterr().out
    assert "op-[red]" in printed
    assert ("\x1b[1;31mFailed" in printed) is has_color


@pytest.mark.parametrize("command", ["reboot web_0", "operations --watch"])
def test_caller_over_the_rate_limit_learns_when_to_try_again(
    forewarn: Run, command: str
) -> None:
    body = (
        '{"error": "too many requests from tenant shop", "hint": "One request can name many'
        ' VMs.", "kind": "too-many"}'
    )
    answer = http("429 Too Many Requests\r\nRetry-After: 7", body, "application/json")
    with answering(answer) as url:
        ended = forewarn(*command.split(), "--url", url)
    # As with everything that cannot be done now.
    assert ended.status == 3
    assert ended.err.splitlines() == [
        "forewarn: too many requests from tenant shop",
        "  hint: One request can name many VMs. Try again in 7 s.",
    ]
