"""A minimal client of a metadata endpoint, for checks only.

A `Wire` is one connection. Every wait is limited: the timeout of a socket applies to each
read, so an endpoint that sends single bytes could block a reader without end.

It sends exactly the given request, with headers in any number and case, and returns the
whole answer. It uses only the standard library.
"""

import math
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from forewarn.clock import SystemClock
from forewarn.testing.answers import Answer, How, Reader

ANSWER_SECONDS = 10.0
"""Maximum time from the first byte of an answer to its last, in seconds: as long as
usual clients wait for a document of some kilobytes."""

_PIECE_BYTES = 65_536

Headers = Sequence[tuple[str, str]]

CLOCK = SystemClock()


class Socket(Protocol):
    """The methods of a socket that a connection uses."""

    def sendall(self, data: bytes, /) -> None:
        """Send all bytes; raises OSError."""
        ...

    def recv(self, size: int, /) -> bytes:
        """Return received bytes, or none at the end; raises OSError."""
        ...

    def settimeout(self, seconds: float | None, /) -> None:
        """Set the maximum wait of the next call."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """Open a connection; raises OSError."""
    wire = socket.create_connection(
        (host, port), None if math.isinf(seconds) else seconds
    )
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return wire


def host_header(host: str, port: int) -> str:
    """Return the value of Host (RFC 9112, 3.2)."""
    shown = f"[{host}]" if ":" in host else host.encode("idna").decode("ascii")
    return shown if port == 80 else f"{shown}:{port}"  # noqa: PLR2004 - HTTP's port


def is_chunked(headers: Headers) -> bool:
    """Return whether the body of a request is sent in chunks."""
    return any(name.lower() == "transfer-encoding" for name, _ in headers)


def head(
    method: str, target: str, host: str, headers: Headers, body: bytes | None
) -> bytes:
    """Return the head of a request; raises ValueError if it cannot be sent."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None and not is_chunked(headers):
        lines.append(f"Content-Length: {len(body)}")
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError(f"a line break in the head of a request: {lines}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def framed(headers: Headers, body: bytes | None) -> bytes:
    """Return a body in its transfer coding: one chunk, or unchanged."""
    if not body or not is_chunked(headers):
        return body or b""
    return b"%X\r\n%s\r\n0\r\n\r\n" % (len(body), body)


class Wire:
    """A connection on which answers are read in sequence."""

    def __init__(
        self,
        wire: Socket,
        *,
        answer_seconds: float | None = None,
        ends: float = math.inf,
    ) -> None:
        """Use an open connection.

        `answer_seconds`: maximum time from the beginning of an answer to its end,
        usually ten seconds. `ends`: deadline for everything, by the monotonic clock.
        """
        self._wire = wire
        self._answer_seconds = answer_seconds or ANSWER_SECONDS
        self._ends = ends
        self._rest = b""
        """Bytes after the last answer."""
        self.keeps = True
        """Whether the last answer leaves the connection open."""

    def send(self, data: bytes, *, seconds: float) -> None:
        """Send all bytes within a time limit; raises OSError."""
        self._wire.settimeout(None if math.isinf(seconds) else seconds)
        self._wire.sendall(data)

    def reader(self, method: str) -> Reader:
        """Return a reader for the next answer, with the bytes received so far.

        Raises the errors of `Reader.feed`.
        """
        reader = Reader(method=method)
        rest, self._rest = self._rest, b""
        if rest:
            reader.feed(rest)
        return reader

    def receive_more(self, reader: Reader, *, seconds: float) -> bool:
        """Receive the next bytes; return whether any came in time.

        Raises OSError.
        """
        self._wire.settimeout(None if math.isinf(seconds) else max(seconds, 0.001))
        try:
            piece = self._wire.recv(_PIECE_BYTES)
        except TimeoutError:
            return False
        except ConnectionError as error:
            if not reader.has_begun:
                raise
            raise reader.broken(
                How.CUT, f"the connection was reset {reader.where}"
            ) from error
        if piece:
            reader.feed(piece)
        else:
            reader.end()
        return True

    def receive(self, reader: Reader, *, seconds: float) -> Answer:
        """Return the answer, which must begin within `seconds`; raises OSError.

        Raises BrokenAnswerError if it began but is not complete.
        """
        ends = CLOCK.monotonic() + seconds
        has_begun = False
        while reader.answer is None:
            if reader.has_begun and not has_begun:
                has_begun = True
                ends = CLOCK.monotonic() + self._answer_seconds
            left = min(ends, self._ends) - CLOCK.monotonic()
            if left <= 0 or not self.receive_more(reader, seconds=left):
                if not reader.has_begun:
                    raise TimeoutError(f"no answer in {seconds:g} s")
                took = self._answer_seconds
                raise reader.broken(
                    How.TOO_SLOW,
                    f"the answer did not end in {took:g} s: it stopped {reader.where}",
                )
        self._rest = reader.rest
        self.keeps = reader.keeps
        return reader.answer

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()


T = TypeVar("T")

EVENTS_PATH = "/metadata/scheduledevents"
INSTANCE_PATH = "/metadata/instance"

METADATA = (("Metadata", "true"),)
"""The header that nearly every request needs (clause 1.6)."""

PATIENCE = 10
"""Maximum number of repetitions of a request that gets 429."""


PAUSE_SECONDS = 1.0
"""Pause between two repetitions, in seconds: the period of usual limits."""

TIMEOUT_SECONDS = 130.0
"""Maximum time until an answer begins, in seconds: the first one may take two minutes
(clause 7.1)."""

LATER_SECONDS = 30.0
"""Maximum time until an answer begins after the first answer with status 200, in
seconds: three times the timeout of usual clients. Only the first answer may take longer
(clause 7.1)."""

INVITED_SECONDS = 5.0
"""Maximum wait for a 100, in seconds. Then the client sends the body anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request."""

    method: str = "GET"
    target: str
    headers: Headers = METADATA
    body: bytes | None = None


class Client(Protocol):
    """A client of the metadata endpoint of one VM."""

    def ask(
        self,
        method: str,
        target: str,
        *,
        headers: Headers = METADATA,
        body: bytes | None = None,
        patient: bool = True,
    ) -> Answer:
        """Send a request and return its answer; raises OSError.

        `patient`: repeat the request after 429, with pauses, if the client can wait.
        """
        ...

    def ask_first(self, target: str, body: bytes) -> tuple[bool, Answer]:
        """POST with `Expect: 100-continue` and send the body after a 100.

        Return whether the server sent 100, and the answer.
        """
        ...

    def ask_in_turn(
        self, requests: Sequence[Sent]
    ) -> tuple[tuple[Answer, ...], OSError | None]:
        """Send requests on one connection, each after the answer to the one before.

        Return the answers, and the error that ended the connection. Without an error,
        there are fewer answers than requests if an answer announced the end of the
        connection.
        """
        ...


def host_and_port(url: str) -> tuple[str, int]:
    """Return the host and port of a URL; raises ValueError with a message."""
    wrong = f"{url!r} is not a URL such as http://169.254.169.254"
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
    except ValueError as error:
        # An unclosed bracket, or an invalid port.
        raise ValueError(f"{wrong}: {error}") from None
    if parts.scheme != "http" or not host:
        raise ValueError(wrong)
    if not _is_name(host):
        raise ValueError(f"{wrong}: the host name is not valid")
    return host, 80 if port is None else port


def _is_name(host: str) -> bool:
    try:
        # The resolver also refuses labels that are empty or too long.
        host.encode("idna")
    except UnicodeError:
        return False
    return " " not in host and host.isprintable()


class HttpClient:
    """A client of the endpoint at a URL, with a new connection for each request.

    Every wait is limited. An answer must begin within `timeout_seconds`, or within 30 s
    after the first 200, and must end within 10 s after that. An answer that exceeds the
    limits of `answers`, or is not complete HTTP, raises BrokenAnswerError.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """Send requests to the host and port of `url`; raises ValueError.

        `pause` waits for a number of seconds. Without it, no request is repeated.
        """
        self._host, self._port = host_and_port(url)
        self._begin_seconds = timeout_seconds
        self._pause = pause

    def ask(
        self,
        method: str,
        target: str,
        *,
        headers: Headers = METADATA,
        body: bytes | None = None,
        patient: bool = True,
    ) -> Answer:
        """Send a request and return its answer; raises OSError."""
        sent = Sent(method=method, target=target, headers=headers, body=body)

        def once() -> Answer:
            with closing(Wire(self.connect())) as wire:
                return self._exchange(wire, sent)

        if not patient:
            return once()
        return self._patiently(once, lambda answer: [answer])

    def _patiently(
        self, once: Callable[[], T], answers: Callable[[T], Iterable[Answer]]
    ) -> T:
        """Repeat `once`, with pauses, until none of its answers is 429."""
        result, pause = once(), self._pause
        for _ in range(PATIENCE):
            is_limited = any(
                answer.status == HTTPStatus.TOO_MANY_REQUESTS
                for answer in answers(result)
            )
            if pause is None or not is_limited:
                break
            pause(PAUSE_SECONDS)
            result = once()
        return result

    def _exchange(self, wire: Wire, sent: Sent) -> Answer:
        data = self._head(sent) + framed(sent.headers, sent.body)
        wire.send(data, seconds=self._begin_seconds)
        return self._receive(wire, wire.reader(sent.method))

    def _receive(self, wire: Wire, reader: Reader) -> Answer:
        answer = wire.receive(reader, seconds=self._begin_seconds)
        if answer.status == HTTPStatus.OK and self._begin_seconds > LATER_SECONDS:
            self._begin_seconds = LATER_SECONDS
        return answer

    def _head(self, sent: Sent) -> bytes:
        host = host_header(self._host, self._port)
        return head(sent.method, sent.target, host, sent.headers, sent.body)

    def ask_first(self, target: str, body: bytes) -> tuple[bool, Answer]:
        """POST with `Expect: 100-continue` and send the body after a 100."""
        headers = (*METADATA, ("Expect", "100-continue"))
        sent = Sent(method="POST", target=target, headers=headers, body=body)

        def once() -> tuple[bool, Answer]:
            with closing(Wire(self.connect())) as wire:
                wire.send(self._head(sent), seconds=self._begin_seconds)
                reader = wire.reader("POST")
                # A line may arrive in several pieces.
                came = True
                ends = CLOCK.monotonic() + min(INVITED_SECONDS, self._begin_seconds)
                while (
                    came
                    and reader.answer is None
                    and HTTPStatus.CONTINUE not in reader.interims
                ):
                    came = wire.receive_more(reader, seconds=ends - CLOCK.monotonic())
                goes_on = HTTPStatus.CONTINUE in reader.interims
                if goes_on or not reader.has_begun:
                    # Without a 100, the client may send the body after a while.
                    wire.send(body, seconds=self._begin_seconds)
                return goes_on, self._receive(wire, reader)

        return self._patiently(once, lambda answers_: answers_[1:])

    def ask_in_turn(
        self, requests: Sequence[Sent]
    ) -> tuple[tuple[Answer, ...], OSError | None]:
        """Send requests on one connection, each after the answer to the one before."""

        def once() -> tuple[tuple[Answer, ...], OSError | None]:
            answers: list[Answer] = []
            try:
                with closing(Wire(self.connect())) as wire:
                    for sent in requests:
                        if not wire.keeps:
                            # The last answer announced the end of the connection.
                            break
                        answers.append(self._exchange(wire, sent))
            except OSError as error:
                return tuple(answers), error
            return tuple(answers), None

        return self._patiently(once, lambda answers_: answers_[0])

    def connect(self) -> Socket:
        """Open a connection for one exchange; raises OSError."""
        return connect(self._host, self._port, self._begin_seconds)
