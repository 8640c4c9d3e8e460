"""Sends one request to an endpoint and returns every outcome as a value.

A recorder must survive every behavior of an endpoint: no answer, single bytes, a stop
in the middle, other protocols, endless data. It uses only the standard library.
"""

import errno
import socket
from http import HTTPStatus

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
from forewarn.testing.answers import Answer as HttpAnswer
from forewarn.testing.answers import BrokenAnswerError, How, NotHttpError
from forewarn.testing.client import EVENTS_PATH, host_and_port
from forewarn.testing.wire import CLOCK, Headers, Wire, connect, head, host_header

NAME_TARGET = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
NAME_MAX = 100
"""Maximum length of a VM's name, in characters: Azure's have at most 64."""

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
"""Headers that a recording keeps: those that clients read, and the name of the server.
Other headers differ from answer to answer (Date) or belong to the connection."""

_UNREACHABLE = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}
)


class Asker:
    """Requests the document of the endpoint at a URL, each time on a new connection."""

    def __init__(self, url: str, *, api_version: str) -> None:
        """Use the host and port of `url`; raises ValueError."""
        self._host, self._port = host_and_port(url)
        self._target = f"{EVENTS_PATH}?api-version={api_version}"

    def name(self, *, timeout_seconds: float) -> str:
        """Return the VM's name from the instance endpoint; empty if it has none."""
        outcome = self._ask(NAME_TARGET, {}, timeout_seconds)
        if not isinstance(outcome, Answer) or outcome.status != HTTPStatus.OK:
            return ""
        name = outcome.body.decode("utf-8", "replace").strip()
        return name if name.isprintable() and len(name) <= NAME_MAX else ""

    def ask(self, *, etag: str | None, timeout_seconds: float) -> Outcome:
        """Send one request. With `etag`, the answer can be 304."""
        headers = {} if etag is None else {"If-None-Match": etag}
        return self._ask(self._target, headers, timeout_seconds)

    def _ask(
        self, target: str, headers: dict[str, str], timeout_seconds: float
    ) -> Outcome:
        sent = (("Accept-Encoding", "identity"), ("Metadata", "true"), *headers.items())
        try:
            answer = self._exchange(target, sent, timeout_seconds)
        except BrokenAnswerError as error:
            return Failed(failure=_BROKEN[error.how], detail=_detail(error))
        except NotHttpError:
            return Failed(failure=Failure.STRANGE, detail="no HTTP")
        except TimeoutError:
            return Failed(failure=Failure.TIMEOUT)
        except ConnectionRefusedError:
            return Failed(failure=Failure.REFUSED)
        except ConnectionError as error:
            return Failed(failure=Failure.RESET, detail=error.strerror or str(error))
        except OSError as error:
            return _unreachable(error)
        return _recorded(answer)

    def _exchange(
        self, target: str, headers: Headers, timeout_seconds: float
    ) -> HttpAnswer:
        ends = CLOCK.monotonic() + timeout_seconds
        host = host_header(self._host, self._port)
        request = head("GET", target, host, headers, None)
        wire = Wire(
            connect(self._host, self._port, timeout_seconds),
            answer_seconds=timeout_seconds,
            ends=ends,
        )
        try:
            wire.send(request, seconds=max(ends - CLOCK.monotonic(), 0.001))
            return wire.receive(wire.reader("GET"), seconds=timeout_seconds)
        finally:
            wire.close()


_BROKEN = {
    How.CUT: Failure.RESET,
    How.MALFORMED: Failure.STRANGE,
    How.TOO_LONG: Failure.STRANGE,
    How.TOO_SLOW: Failure.TIMEOUT,
}


def _detail(error: BrokenAnswerError) -> str:
    """Return a constant description of a defect: a recording shows changes only."""
    cause = error.__cause__
    if isinstance(cause, OSError):
        return cause.strerror or ""
    return "" if error.how is How.TOO_SLOW else error.what


def _recorded(answer: HttpAnswer) -> Outcome:
    """Return the parts of an answer that a recording keeps."""
    if not STATUS_MIN <= answer.status <= STATUS_MAX:
        return Failed(failure=Failure.STRANGE, detail=f"status {answer.status}")
    reason = answer.reason
    is_usual = reason == usual_reason(answer.status) or not is_value(reason)
    return Answer(
        status=answer.status,
        reason="" if is_usual else reason,
        headers=tuple(
            (name, value)
            for name, value in answer.headers
            if name.lower() in HEADERS and is_value(value)
        ),
        body=answer.body,
    )


def _unreachable(error: OSError) -> Failed:
    is_known = isinstance(error, socket.gaierror) or error.errno in _UNREACHABLE
    failure = Failure.UNREACHABLE if is_known else Failure.RESET
    return Failed(failure=failure, detail=error.strerror or str(error))


def is_unchanged(outcome: Outcome) -> bool:
    """Tell whether an answer is 304 (Not Modified)."""
    return isinstance(outcome, Answer) and outcome.status == HTTPStatus.NOT_MODIFIED
