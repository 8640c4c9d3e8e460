"""A minimal client of a metadata endpoint, for checks only.

It sends exactly the given request, with headers in any number and case, and returns the
whole answer. It uses only the standard library.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from forewarn.testing.answers import Answer, Reader
from forewarn.testing.wire import (
    CLOCK,
    Headers,
    Socket,
    Wire,
    connect,
    framed,
    head,
    host_header,
)

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
        found, pause = once(), self._pause
        for _ in range(PATIENCE):
            is_limited = any(
                each.status == HTTPStatus.TOO_MANY_REQUESTS for each in answers(found)
            )
            if pause is None or not is_limited:
                break
            pause(PAUSE_SECONDS)
            found = once()
        return found

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
                    came = wire.hear(reader, seconds=ends - CLOCK.monotonic())
                goes_on = HTTPStatus.CONTINUE in reader.interims
                if goes_on or not reader.has_begun:
                    # Without a 100, the client may send the body after a while.
                    wire.send(body, seconds=self._begin_seconds)
                return goes_on, self._receive(wire, reader)

        return self._patiently(once, lambda found: found[1:])

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

        return self._patiently(once, lambda found: found[0])

    def connect(self) -> Socket:
        """Open a connection for one exchange; raises OSError."""
        return connect(self._host, self._port, self._begin_seconds)
