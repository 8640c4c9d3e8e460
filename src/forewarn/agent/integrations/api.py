"""Asks an HTTP API with JSON for a handler: one deadline, retries where they help.

What may pass (no connection, 408, 425, 429, 5xx) is asked again while there is time,
so only requests that may be repeated belong here. A refusal is an ApiError with its
status and what the server said. An answer of 2xx counts only in the form that was asked
for: a login page, or nothing at all, is a FormError and never an empty list. Secrets
are read anew for each request.
"""

from __future__ import annotations

import contextlib
import enum
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from forewarn.agent.foreign import members, told
from forewarn.agent.handlers.records import last_line
from forewarn.agent.handlers.run_context import (
    PAUSE_FIRST_SECONDS,
    PAUSE_MOST_SECONDS,
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
"""For one attempt, where more is left: a server that hangs is asked again."""

BODY_BYTES_MAX = 64 * 1024 * 1024
"""Of an answer: all pods of a node, with everything about them, are a few."""

AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that may pass."""

FORBIDDEN, NOT_FOUND, CONFLICT = 403, 404, 409
"""Statuses that handlers look for."""

_FINE = range(200, 300)

SAID_BYTES = 4_096
"""Of an answer that are looked at for a sentence."""

SHOWN_CHARACTERS = 80
"""Of an answer of another form, in a sentence: enough to know a login page by."""

_CONTROL = re.compile(r"[\x00-\x20\x7f-\x9f]+")


class Shape(enum.Enum):
    """What an answer of 2xx must be; the value is for a sentence."""

    OBJECT = "JSON object"
    LIST = "JSON list of objects"
    JSON = "JSON"
    ANY = "answer"
    """Its body is not looked at: what came of the request is seen elsewhere."""


class ApiError(HandlerError):
    """The server refused a request."""

    def __init__(self, message: str, *, answer: Answer, body: Any = None) -> None:
        """Keep the answer with its status, and its JSON where it was some."""
        super().__init__(message)
        self.answer = answer
        self.status = answer.status
        self.body = body


class FormError(HandlerError):
    """The server answered 2xx with something else than what was asked for."""

    def __init__(self, method: str, path: str, answer: Answer, why: str) -> None:
        """Say what was asked, what is missing and how the answer begins."""
        kind = answer.header("content-type") or "no content type"
        found = "an empty body"
        if answer.body.strip():
            text = answer.body[:SAID_BYTES].decode("utf-8", "replace")
            found = told(_CONTROL.sub(" ", text).strip(), SHOWN_CHARACTERS)
        super().__init__(
            f"{method} {path} was answered {answer.status}, and that is {why}: "
            f"{told(kind, SHOWN_CHARACTERS)}, {found}"
        )
        self.answer = answer


@frozen_dataclass
class Ask:
    """One request."""

    method: str
    path: str
    """With its query."""
    json: Any = None
    content_type: str = "application/json"
    again: bool = True
    """Whether it is asked again where that may help."""
    seconds: float = TRY_SECONDS
    """For one attempt, where more is left."""
    shape: Shape = Shape.OBJECT
    """Of the answer; another one is a FormError, and is not asked again here."""

    def odd(self, answer: Answer, why: str) -> FormError:
        """Return the error of an answer that is not what was asked for: `no Node`."""
        return FormError(self.method, self.path.partition("?")[0], answer, why)


class Api:
    """One server, asked with the same headers each time."""

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
        """Connect nowhere yet; `headers` is called for each request.

        `ca_file`, or else `ca_text` as PEM, has the only authorities that are trusted.
        `cert_file` and its `key_file` are shown to a server that wants to know us.
        """
        parsed = parse_url(url)
        # A path in the URL, as behind a proxy, comes before that of each request.
        self._prefix = parsed.target.rstrip("/")
        self.base = parsed.base
        """Where the server is, for a sentence."""
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

    def get(self, path: str, context: RunContext) -> dict[str, Any]:
        """Return the JSON object of an answer; raises HandlerError."""
        return self.ask(Ask(method="GET", path=path), context)

    def ask(self, ask: Ask, context: RunContext) -> Any:
        """Return the JSON of an answer, which has the shape; raises HandlerError."""
        return self.answered(ask, context)[1]

    def answered(self, ask: Ask, context: RunContext) -> tuple[Answer, Any]:
        """Return an answer, and its JSON as `ask` does; raises HandlerError."""
        pauses = doubling(PAUSE_FIRST_SECONDS, PAUSE_MOST_SECONDS)
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
                raise context.over("asking again", said=last.message) from last

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
        said = str(members(body).get("message", ""))
        said = last_line(said or answer.body[:SAID_BYTES].decode("utf-8", "replace"))
        path = ask.path.partition("?")[0]
        message = f"{ask.method} {path} was answered {answer.status}"
        return ApiError(
            f"{message}: {said}" if said else message, answer=answer, body=body
        )


class TokenApi(Api):
    """A server that is asked with a token in a header, as Consul and Nomad are."""

    def __init__(
        self, url: str, *, header: str, token_file: str, clock: Clock, **tls: str
    ) -> None:
        """Connect nowhere yet; `header` is that of the token, `tls` as of `Api`."""

        def headers() -> Sequence[tuple[str, str]]:
            return ((header, read_secret(token_file)),) if token_file else ()

        super().__init__(url, clock=clock, headers=headers, **tls)

    def allowed(self, ask: Ask, context: RunContext, right: str) -> tuple[Answer, Any]:
        """Return an answer and its JSON; raises HandlerError.

        Where it is forbidden, that says which `right` the token needs.
        """
        try:
            return self.answered(ask, context)
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            raise HandlerError(f"{error.message}; its token needs {right}") from error


def _shaped(ask: Ask, answer: Answer) -> Any:
    """Return the JSON of an answer; raises FormError where it has another shape."""
    if ask.shape is Shape.ANY:
        return _read(answer)
    try:
        found: object = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise ask.odd(answer, f"no {ask.shape.value}") from None
    if not _has_shape(found, ask.shape):
        raise ask.odd(answer, f"no {ask.shape.value}")
    return cast("Any", found)


def _has_shape(found: object, shape: Shape) -> bool:
    if shape is Shape.OBJECT:
        return isinstance(found, dict)
    if shape is Shape.LIST:
        return isinstance(found, list) and all(
            isinstance(each, dict) for each in cast("list[object]", found)
        )
    return True


def _read(answer: Answer) -> Any:
    """Return the JSON of a refusal; None: it is none."""
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
