"""A client of a metadata endpoint, as small as can be: for checks only.

It sends exactly what it is told, headers in any number and case, and hides
nothing of the answer. Standard library only.
"""

import http.client
import io
import json
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urlsplit

from forewarn.testing.deadline import Deadline

EVENTS_PATH = "/metadata/scheduledevents"
INSTANCE_PATH = "/metadata/instance"

METADATA = (("Metadata", "true"),)
"""The header that nearly every request needs (clause 1.6)."""

PATIENCE = 10
"""How often a patient client asks the same before it takes 429 for the answer."""

TOO_MANY_REQUESTS = HTTPStatus.TOO_MANY_REQUESTS

PAUSE_SECONDS = 1.0
"""Between two such tries: what a limit for each second needs."""

TIMEOUT_SECONDS = 130.0
"""A first answer may take two minutes (clause 7.1)."""

BODY_BYTES_MAX = 1 << 20
"""Maximum length of an answer's body, in bytes: sixteen times the largest useful
document. What is longer is no answer, and would fill memory or disk."""

INVITED_SECONDS = 5.0
"""So long a client waits for a 100 before it sends its body without."""

_INTERIM_BYTES_MAX = 4096
"""Of an interim answer, which is a line and perhaps a few headers."""


class CutShortError(ConnectionError):
    """An answer began, and did not go on until its end."""


_NO_HTTP = (http.client.HTTPException, OverflowError)
"""What the standard library makes of answers that are no HTTP; a length of twenty
digits is the second."""

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back, taken apart no further than HTTP does."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the first value of a header, or None."""
        for each, value in self.headers:
            if each.lower() == name.lower():
                return value
        return None

    @property
    def json(self) -> Any:
        """Return the body's JSON; raises ValueError."""
        return json.loads(self.body)


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
    """A client of the endpoint at a URL; each request has its own connection."""

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
        self._timeout_seconds = timeout_seconds
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
        answer = self._ask_once(method, target, headers, body)
        for _ in range(PATIENCE):
            too_many = answer.status == TOO_MANY_REQUESTS
            if self._pause is None or not patient or not too_many:
                break
            self._pause(PAUSE_SECONDS)
            answer = self._ask_once(method, target, headers, body)
        return answer

    def _ask_once(
        self, method: str, target: str, headers: Headers, body: bytes | None
    ) -> Answer:
        with self._connected() as connection:
            _put_head(connection, method, target, headers, body)
            connection.endheaders(body, encode_chunked=_is_chunked(headers))
            return _read(connection)

    def ask_first(self, target: str, body: bytes) -> tuple[bool, Answer]:
        """POST with `Expect: 100-continue`; the body follows a 100 only."""
        goes_on, answer = self._ask_first_once(target, body)
        for _ in range(PATIENCE):
            too_many = answer.status == TOO_MANY_REQUESTS
            if self._pause is None or not too_many:
                break
            self._pause(PAUSE_SECONDS)
            goes_on, answer = self._ask_first_once(target, body)
        return goes_on, answer

    def _ask_first_once(self, target: str, body: bytes) -> tuple[bool, Answer]:
        headers = (*METADATA, ("Expect", "100-continue"))
        with self._connected() as connection:
            _put_head(connection, "POST", target, headers, body)
            connection.endheaders()
            line = _first_line(connection, min(INVITED_SECONDS, self._timeout_seconds))
            goes_on = line.startswith(b"HTTP/1.1 100")
            if goes_on or not line:
                # `getresponse` skips the 100 itself. Who was not invited may send it
                # too, after a while.
                connection.send(body)
            return goes_on, _read(connection)

    def ask_in_turn(
        self, requests: Sequence[Sent]
    ) -> tuple[tuple[Answer, ...], OSError | None]:
        """Send requests on one connection, each when the answer before is there."""
        answers, error = self._ask_in_turn_once(requests)
        for _ in range(PATIENCE):
            too_many = any(each.status == TOO_MANY_REQUESTS for each in answers)
            if self._pause is None or not too_many:
                break
            self._pause(PAUSE_SECONDS)
            answers, error = self._ask_in_turn_once(requests)
        return answers, error

    def _ask_in_turn_once(
        self, requests: Sequence[Sent]
    ) -> tuple[tuple[Answer, ...], OSError | None]:
        answers: list[Answer] = []
        reader: _OneReader | None = None
        try:
            with self._connected() as connection:
                reader = _OneReader(connection.sock)
                wire: Any = reader
                connection.sock = wire
                for sent in requests:
                    if connection.sock is None:
                        # The answer before said that it is the last one.
                        break
                    headers, body = sent.headers, sent.body
                    _put_head(connection, sent.method, sent.target, headers, body)
                    connection.endheaders(body)
                    answers.append(_read(connection))
        except OSError as error:
            return tuple(answers), error
        finally:
            if reader is not None:
                reader.end()
        return tuple(answers), None

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection for one exchange; raises OSError."""
        seconds = self._timeout_seconds
        connection = http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        connection.connect()
        return connection

    @contextmanager
    def _connected(self) -> Generator[http.client.HTTPConnection]:
        """Yield a connection for one exchange; raises OSError, whatever goes wrong."""
        seconds = self._timeout_seconds
        connection = self.connect()
        deadline = Deadline(seconds)
        try:
            deadline.watch(connection.sock)
            yield connection
            if deadline.has_passed:
                # An answer without a length ends where the deadline cut it.
                raise TimeoutError
        except (*_NO_HTTP, OSError) as error:
            if deadline.has_passed:
                raise TimeoutError(f"no whole answer in {seconds:g} s") from error
            if isinstance(error, OSError):
                raise
            if isinstance(error, http.client.IncompleteRead):
                raise CutShortError(f"the answer is cut short: {error!r}") from error
            raise ConnectionError(f"no HTTP answer: {error!r}") from error
        finally:
            deadline.end()
            connection.close()


class _OneReader:
    """A socket whose answers are read by one reader.

    The library has one for each answer, and drops what follows an answer at once.
    """

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self._reader = _Kept(wire.makefile("rb", buffering=0))

    def makefile(self, _mode: str) -> io.BufferedReader:
        return self._reader

    def sendall(self, data: bytes) -> None:
        self._wire.sendall(data)

    def close(self) -> None:
        """Close the socket; what has come of it can be read until the reader ends."""
        self._wire.close()

    def end(self) -> None:
        self._reader.end()


class _Kept(io.BufferedReader):
    """A reader that outlives the answer that it was made for."""

    def close(self) -> None:
        """Do nothing: others are read from it."""

    def end(self) -> None:
        super().close()


def _is_chunked(headers: Headers) -> bool:
    return any(name.lower() == "transfer-encoding" for name, _ in headers)


def _put_head(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    headers: Headers,
    body: bytes | None,
) -> None:
    connection.putrequest(method, target, skip_accept_encoding=True)
    for name, value in headers:
        connection.putheader(name, value)
    if body is not None and not _is_chunked(headers):
        connection.putheader("Content-Length", str(len(body)))


def _first_line(connection: http.client.HTTPConnection, seconds: float) -> bytes:
    """Return what has come of the status line, and leave it to be read.

    Empty: nothing came for so many seconds.
    """
    before = connection.sock.gettimeout()
    connection.sock.settimeout(seconds)
    try:
        return connection.sock.recv(_INTERIM_BYTES_MAX, socket.MSG_PEEK)
    except TimeoutError:
        return b""
    finally:
        connection.sock.settimeout(before)


def _read(connection: http.client.HTTPConnection) -> Answer:
    response = connection.getresponse()
    body = response.read(BODY_BYTES_MAX + 1)
    if len(body) > BODY_BYTES_MAX:
        raise ConnectionError(f"the answer has more than {BODY_BYTES_MAX} bytes")
    # To read so many bytes and no more does not tell that others were promised.
    if response.length:
        raise http.client.IncompleteRead(body, response.length)
    return Answer(
        status=response.status, headers=tuple(response.getheaders()), body=body
    )
