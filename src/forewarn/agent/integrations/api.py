"""A client of HTTP APIs with JSON, with one deadline and retries of temporary errors.

After a temporary error (no connection, 408, 425, 429, 5xx), a request is sent again until
the deadline, so use it only for requests that can be repeated. Any other error status is
an ApiError with the server's message. A 2xx response must have the expected form: a login
page or an empty body is a FormError, never an empty list. Secrets are read for each
request.
"""

from __future__ import annotations

import contextlib
import enum
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from forewarn.agent.foreign import members, told
from forewarn.agent.handlers.records import last_line
from forewarn.agent.handlers.run_context import (
    PAUSE_FIRST_SECONDS,
    PAUSE_SECONDS_MAX,
    HandlerError,
    RunContext,
    doubling,
)
from forewarn.agent.handlers.secret import read_secret
from forewarn.agent.wire.http import Answer, Client, HttpError, Trouble, parse_url
from forewarn.clock import Clock
from forewarn.instants import SECOND
from forewarn.protocol.frozen import frozen_dataclass

TRY_SECONDS = 10.0
"""Maximum seconds for one attempt, so that a server that hangs is asked again."""

BODY_BYTES_MAX = 64 * 1024 * 1024
"""Maximum length of a response, in bytes: all pods of a node need a few megabytes."""

AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of temporary errors."""

FORBIDDEN, NOT_FOUND, CONFLICT = 403, 404, 409
"""Statuses that handlers treat specially."""

_FINE = range(200, 300)

SAID_BYTES = 4_096
"""Bytes of a response that are searched for a message."""

SHOWN_CHARACTERS = 80
"""Characters of an unexpected response in a message: enough to recognize a login page."""


class Shape(enum.Enum):
    """The expected form of a 2xx response; the value is its name in messages."""

    OBJECT = "JSON object"
    LIST = "JSON list of objects"
    JSON = "JSON"
    ANY = "answer"
    """The body is ignored; the result is visible elsewhere."""


class ApiError(HandlerError):
    """The server rejected a request."""

    def __init__(self, message: str, *, answer: Answer, body: Any = None) -> None:
        """Store the response, its status, and its JSON if it has any."""
        super().__init__(message)
        self.answer = answer
        self.status = answer.status
        self.body = body


class FormError(HandlerError):
    """The server sent a 2xx response of an unexpected form."""

    def __init__(self, method: str, path: str, answer: Answer, why: str) -> None:
        """Describe the request, the problem, and the start of the response."""
        kind = answer.header("content-type") or "no content type"
        excerpt = "an empty body"
        if answer.body.strip():
            text = answer.body[:SAID_BYTES].decode("utf-8", "replace")
            excerpt = told(text.strip(), SHOWN_CHARACTERS)
        super().__init__(
            f"{method} {path} was answered {answer.status} with {why}: "
            f"{told(kind, SHOWN_CHARACTERS)}, {excerpt}"
        )
        self.answer = answer


@frozen_dataclass
class Ask:
    """One request."""

    method: str
    path: str
    """Includes the query."""
    json: Any = None
    content_type: str = "application/json"
    again: bool = True
    """Whether the request is sent again after a temporary error."""
    seconds: float = TRY_SECONDS
    """Maximum time for one attempt."""
    shape: Shape = Shape.OBJECT
    """Expected form of the response; another form is a FormError, without a retry."""

    def unexpected(self, answer: Answer, why: str) -> FormError:
        """Return the error for an unexpected response; `why` is a string like `no
        Node`."""
        return FormError(self.method, self.path.partition("?")[0], answer, why)


class Api:
    """A client of one server, with the same headers for each request."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        headers: Callable[[], Sequence[tuple[str, str]]] = tuple,
        ca_file: str = "",
        ca_text: str = "",
        cert_file: str = "",
        key_file: str = "",
    ) -> None:
        """Send nothing yet; `headers` is called for each request.

        `ca_file`, or `ca_text` as PEM, has the only trusted authorities. `cert_file` and
        `key_file` are the client certificate.
        """
        parsed = parse_url(url)
        # A path in the URL, for a server behind a proxy, is the prefix of each path.
        self._prefix = parsed.target.rstrip("/")
        self.base = parsed.base
        """The address of the server, for messages."""
        self._headers = headers
        self._client = partial(
            Client,
            parsed,
            clock=clock,
            ca_file=ca_file,
            ca_text=ca_text,
            cert_file=cert_file,
            key_file=key_file,
            body_max=BODY_BYTES_MAX,
        )

    def ask(self, ask: Ask, context: RunContext) -> Any:
        """Return the JSON of a response of the expected form; raises HandlerError."""
        return self.answered(ask, context)[1]

    def answered(self, ask: Ask, context: RunContext) -> tuple[Answer, Any]:
        """Return a response with its JSON; raises HandlerError."""
        pauses = doubling(PAUSE_FIRST_SECONDS, PAUSE_SECONDS_MAX)
        while True:
            seconds = min(context.remaining(), ask.seconds)
            if seconds <= 0:
                raise context.over(f"asking {self.base}")
            try:
                answer = self._once(ask, context, seconds)
            except HttpError as error:
                if error.trouble is Trouble.STOPPED:
                    raise context.over(f"asking {self.base}") from error
                last: HandlerError = HandlerError(error.message)
            else:
                if answer.status in _FINE:
                    return answer, _shaped(ask, answer)
                last = self._refused(ask, answer)
                if answer.status not in AGAIN:
                    raise last
            if not ask.again:
                raise last
            if not context.sleep(next(pauses)):
                raise context.over("retrying", error=last.message) from last

    def allowed(self, ask: Ask, context: RunContext, right: str) -> tuple[Answer, Any]:
        """Return a response with its JSON; raises HandlerError.

        `right` is added to the error for status 403: `its token needs …`.
        """
        try:
            return self.answered(ask, context)
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            raise HandlerError(f"{error.message}; {right}") from error

    def _once(self, ask: Ask, context: RunContext, seconds: float) -> Answer:
        client = self._client()
        headers = [("Accept", "application/json"), *self._headers()]
        target = f"{self._prefix}{ask.path}"
        timeout = round(seconds * SECOND)
        with contextlib.closing(client), context.on_stop(client.interrupt):
            if ask.method == "GET":
                return client.get(target, headers=headers, timeout=timeout)
            body = b"" if ask.json is None else json.dumps(ask.json).encode()
            if body:
                headers.append(("Content-Type", ask.content_type))
            return client.send(
                ask.method, target, body, headers=headers, timeout=timeout
            )

    def _refused(self, ask: Ask, answer: Answer) -> ApiError:
        body = _read(answer)
        reason = str(members(body).get("message", ""))
        reason = last_line(
            reason or answer.body[:SAID_BYTES].decode("utf-8", "replace")
        )
        path = ask.path.partition("?")[0]
        message = f"{ask.method} {path} was answered {answer.status}"
        return ApiError(
            f"{message}: {reason}" if reason else message, answer=answer, body=body
        )


class TokenApi(Api):
    """A client that sends a token in a header, as Consul and Nomad require."""

    def __init__(
        self, url: str, *, header: str, token_file: str, clock: Clock, **tls: str
    ) -> None:
        """Send nothing yet; `header` is the name of the token's header."""

        def headers() -> Sequence[tuple[str, str]]:
            return ((header, read_secret(token_file)),) if token_file else ()

        super().__init__(url, clock=clock, headers=headers, **tls)


def _shaped(ask: Ask, answer: Answer) -> Any:
    """Return the JSON of a response; raises FormError if its form is unexpected."""
    value = _read(answer)
    if not _has_shape(value, ask.shape):
        raise ask.unexpected(answer, f"no {ask.shape.value}")
    return value


def _has_shape(value: object, shape: Shape) -> bool:
    if shape is Shape.OBJECT:
        return isinstance(value, dict)
    if shape is Shape.LIST:
        return isinstance(value, list) and all(
            isinstance(item, dict) for item in cast("list[object]", value)
        )
    return shape is Shape.ANY or value is not None


def _read(answer: Answer) -> Any:
    """Return the JSON of a response; None: it is not JSON."""
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
