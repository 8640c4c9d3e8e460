"""Asks an endpoint once, and turns whatever happens into a value.

A recorder must outlive everything that an endpoint can do: say nothing, drip, stop
in the middle, send what is no HTTP, send without end. Standard library only.
"""

import errno
import http.client
import io
import socket
from http import HTTPStatus
from typing import Any

from forewarn.sim.recording import (
    STATUS_MAX,
    STATUS_MIN,
    Answer,
    Failed,
    Failure,
    Outcome,
    is_value,
    usual_reason,
)
from forewarn.testing.client import BODY_BYTES_MAX, EVENTS_PATH, host_and_port
from forewarn.testing.deadline import Deadline

NAME_TARGET = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
NAME_MAX = 100
"""Characters of a VM's name; Azure's have 64 at most."""

HEADERS = frozenset(
    {
        "allow",
        "content-encoding",
        "content-length",
        "content-type",
        "etag",
        "retry-after",
        "server",
    }
)
"""What is kept of an answer's head: what clients look at, and who answered. Others
differ from answer to answer (Date), or belong to the connection."""

_UNREACHABLE = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}
)


class Asker:
    """Asks the endpoint at a URL for the document; each time on a new connection."""

    def __init__(self, url: str, *, api_version: str) -> None:
        """Ask at the host and port of `url`; raises ValueError."""
        self._host, self._port = host_and_port(url)
        self._target = f"{EVENTS_PATH}?api-version={api_version}"

    def name(self, *, timeout_seconds: float) -> str:
        """Return what the instance endpoint calls this VM; empty: it does not say."""
        outcome = self._ask(NAME_TARGET, {}, timeout_seconds)
        if not isinstance(outcome, Answer) or outcome.status != HTTPStatus.OK:
            return ""
        name = outcome.body.decode("utf-8", "replace").strip()
        return name if name.isprintable() and len(name) <= NAME_MAX else ""

    def ask(self, *, etag: str | None, timeout_seconds: float) -> Outcome:
        """Ask once. With `etag`, a 304 is one of the possible answers."""
        headers = {} if etag is None else {"If-None-Match": etag}
        return self._ask(self._target, headers, timeout_seconds)

    def _ask(
        self, target: str, headers: dict[str, str], timeout_seconds: float
    ) -> Outcome:
        connection = http.client.HTTPConnection(
            self._host, self._port, timeout=timeout_seconds
        )
        connection.response_class = _Response
        deadline = Deadline(timeout_seconds)
        try:
            connection.connect()
            deadline.watch(connection.sock)
            connection.request("GET", target, headers={"Metadata": "true", **headers})
            answer = _read(connection)
        except TimeoutError:
            answer = Failed(failure=Failure.TIMEOUT)
        except http.client.IncompleteRead as error:
            answer = Failed(
                failure=Failure.RESET, detail=f"after {len(error.partial)} bytes"
            )
        except http.client.RemoteDisconnected:
            answer = Failed(failure=Failure.RESET, detail="before an answer")
        except (http.client.HTTPException, ValueError) as error:
            answer = Failed(failure=Failure.STRANGE, detail=type(error).__name__)
        except ConnectionRefusedError:
            answer = Failed(failure=Failure.REFUSED)
        except ConnectionError as error:
            answer = Failed(failure=Failure.RESET, detail=error.strerror or "")
        except OSError as error:
            answer = _unreachable(error)
        finally:
            deadline.end()
            connection.close()
        return Failed(failure=Failure.TIMEOUT) if deadline.has_passed else answer


class _Lines(io.BufferedReader):
    """Reads what comes, and finds where a line was asked for and nothing was left."""

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        if not line.endswith(b"\n") and (size is None or len(line) < size):
            raise http.client.RemoteDisconnected("in the middle of a line")
        return line


class _Response(http.client.HTTPResponse):
    """An answer whose head must end: the library takes a cut one for a whole."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = _Lines(self.fp.detach())


def _read(connection: http.client.HTTPConnection) -> Outcome:
    response = connection.getresponse()
    body = response.read(BODY_BYTES_MAX + 1)
    if len(body) > BODY_BYTES_MAX:
        detail = f"more than {BODY_BYTES_MAX} bytes"
        return Failed(failure=Failure.STRANGE, detail=detail)
    # To read so many bytes and no more does not tell that others were promised.
    if response.length:
        raise http.client.IncompleteRead(body, response.length)
    if not STATUS_MIN <= response.status <= STATUS_MAX:
        return Failed(failure=Failure.STRANGE, detail=f"status {response.status}")
    reason = response.reason
    is_usual = reason == usual_reason(response.status) or not is_value(reason)
    return Answer(
        status=response.status,
        reason="" if is_usual else reason,
        headers=tuple(
            (name, value)
            for name, value in response.getheaders()
            if name.lower() in HEADERS and is_value(value)
        ),
        body=body,
    )


def _unreachable(error: OSError) -> Failed:
    is_known = isinstance(error, socket.gaierror) or error.errno in _UNREACHABLE
    failure = Failure.UNREACHABLE if is_known else Failure.RESET
    return Failed(failure=failure, detail=error.strerror or str(error))


def is_unchanged(outcome: Outcome) -> bool:
    """Tell whether an answer says that nothing has changed since a tag."""
    return isinstance(outcome, Answer) and outcome.status == HTTPStatus.NOT_MODIFIED
