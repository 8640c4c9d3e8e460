"""A client of a metadata endpoint, as small as can be: for checks only.

It sends exactly what it is told, headers in any number and case, and hides
nothing of the answer. Standard library only.
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
"""How often a patient client asks the same before it takes 429 for the answer."""


PAUSE_SECONDS = 1.0
"""Between two such tries: what a limit for each second needs."""

TIMEOUT_SECONDS = 130.0
"""A first answer may take two minutes (clause 7.1)."""

LATER_SECONDS = 30.0
"""So long an answer may wait before it begins, in seconds, once another was 200: three
times what clients have. Only the first answer may take longer (clause 7.1)."""

INVITED_SECONDS = 5.0
"""So long a client waits for a 100 before it sends its body without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request, as it is sent."""

    method: str = "GET"
    target: str
    headers: Headers = METADATA
    body: bytes | None = None


class Client(Protocol):
    """One VM's way to its metadata endpoint."""

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

        Patient is who waits and asks again after 429, if the client can wait.
        """
        ...

    def ask_first(self, target: str, body: bytes) -> tuple[bool, Answer]:
        """POST with `Expect: 100-continue`; the body follows a 100 only.

        Return whether the 100 came, and the answer.
        """
        ...

    def ask_in_turn(
        self, requests: Sequence[Sent]
    ) -> tuple[tuple[Answer, ...], OSError | None]:
        """Send requests on one connection, each when the answer before is there.

        Return the answers, and why the next one did not come. Where they are fewer
        without a reason, an answer said that it was the last of its connection.
        """
        ...


def host_and_port(url: str) -> tuple[str, int]:
    """Return where the endpoint at a URL is; raises ValueError with a sentence."""
    wrong = f"{url!r} is not a URL such as http://169.254.169.254"
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
    except ValueError as error:
        # A bracket that is not closed, or a port that there is not.
        raise ValueError(f"{wrong}: {error}") from None
    if parts.scheme != "http" or not host:
        raise ValueError(wrong)
    if not _is_name(host):
        raise ValueError(f"{wrong}: no host has such a name")
    return host, 80 if port is None else port


def _is_name(host: str) -> bool:
    try:
        # As the resolver does, which refuses labels that are empty or too long.
        host.encode("idna")
    except UnicodeError:
        return False
    return " " not in host and host.isprintable()


class HttpClient:
    """A client of the endpoint at a URL; each request has its own connection.

    No answer holds it for long: it begins within `timeout_seconds`, after the first 200
    within 30 s, and ends 10 s later at most. What is longer than the bounds of
    `answers`, or is no whole HTTP, is a BrokenAnswerError.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """Ask at `url`, whose host and port count; raises ValueError.

        `pause` waits for so many seconds; without it nothing is asked again.
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
        """Do something again and again, with pauses, until none of its answers is 429."""
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
        """POST with `Expect: 100-continue`; the body follows a 100 only."""
        headers = (*METADATA, ("Expect", "100-continue"))
        sent = Sent(method="POST", target=target, headers=headers, body=body)

        def once() -> tuple[bool, Answer]:
            with closing(Wire(self.connect())) as wire:
                wire.send(self._head(sent), seconds=self._begin_seconds)
                reader = wire.reader("POST")
                # The pieces of a line may come one after the other.
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
                    # Who was not invited may send it too, after a while.
                    wire.send(body, seconds=self._begin_seconds)
                return goes_on, self._receive(wire, reader)

        return self._patiently(once, lambda found: found[1:])

    def ask_in_turn(
        self, requests: Sequence[Sent]
    ) -> tuple[tuple[Answer, ...], OSError | None]:
        """Send requests on one connection, each when the answer before is there."""

        def once() -> tuple[tuple[Answer, ...], OSError | None]:
            answers: list[Answer] = []
            try:
                with closing(Wire(self.connect())) as wire:
                    for sent in requests:
                        if not wire.keeps:
                            # The answer before said that it is the last one.
                            break
                        answers.append(self._exchange(wire, sent))
            except OSError as error:
                return tuple(answers), error
            return tuple(answers), None

        return self._patiently(once, lambda found: found[0])

    def connect(self) -> Socket:
        """Return a connection for one exchange; raises OSError."""
        return connect(self._host, self._port, self._begin_seconds)
