"""Asks an HTTP API with JSON for a handler: one deadline, retries where they help.

What may pass (no connection, 408, 425, 429, 5xx) is asked again while there is time,
so only requests that may be repeated belong here. A refusal is an ApiError with its
status and what the server said. Secrets are read anew for each request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from forewarn.agent.foreign import members
from forewarn.agent.handlers.leash import (
    PAUSE_FIRST_SECONDS,
    PAUSE_MOST_SECONDS,
    Leash,
    doubling,
)
from forewarn.agent.handlers.port import HandlerError
from forewarn.agent.handlers.records import last_line
from forewarn.agent.integrations.waiting import over
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


class ApiError(HandlerError):
    """The server refused a request."""

    def __init__(self, message: str, *, answer: Answer, body: Any = None) -> None:
        """Keep the answer with its status, and its JSON where it was some."""
        super().__init__(message)
        self.answer = answer
        self.status = answer.status
        self.body = body


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
        self._url = parsed
        self._clock = clock
        self._headers = headers
        self._ca_file = ca_file
        self._ca_text = ca_text
        self._cert_file = cert_file
        self._key_file = key_file

    @property
    def base(self) -> str:
        """Return where the server is, for a sentence."""
        return self._url.base

    def get(self, path: str, leash: Leash) -> Any:
        """Return the JSON of an answer; raises HandlerError."""
        return self.ask(Ask(method="GET", path=path), leash)

    def ask(self, ask: Ask, leash: Leash) -> Any:
        """Return the JSON of an answer, None where there is none; raises HandlerError."""
        return self.answered(ask, leash)[1]

    def answered(self, ask: Ask, leash: Leash) -> tuple[Answer, Any]:
        """Return an answer, and its JSON as `ask` does; raises HandlerError."""
        pauses = doubling(PAUSE_FIRST_SECONDS, PAUSE_MOST_SECONDS)
        while True:
            seconds = min(leash.seconds(), ask.seconds)
            if seconds <= 0:
                raise over(leash, f"asking {self.base}")
            try:
                answer = self._once(ask, leash, seconds)
            except HttpError as error:
                if error.trouble is Trouble.STOPPED:
                    raise over(leash, f"asking {self.base}") from error
                last: HandlerError = HandlerError(error.message)
            else:
                if answer.status in _FINE:
                    return answer, _json(answer)
                last = self._refused(ask, answer)
                if answer.status not in AGAIN:
                    raise last
            if not ask.again:
                raise last
            if not leash.pause(next(pauses)):
                raise over(leash, f"asking again: {last}") from last

    def _once(self, ask: Ask, leash: Leash, seconds: float) -> Answer:
        client = Client(
            self._url,
            clock=self._clock,
            ca_file=self._ca_file,
            ca_text=self._ca_text,
            cert_file=self._cert_file,
            key_file=self._key_file,
            body_max=BODY_BYTES_MAX,
        )
        headers = [("Accept", "application/json"), *self._headers()]
        target = f"{self._prefix}{ask.path}"
        timeout = round(seconds * SECOND)
        try:
            with leash.ringing(client.interrupt):
                if ask.method == "GET":
                    return client.get(target, headers=headers, timeout=timeout)
                body = b"" if ask.json is None else json.dumps(ask.json).encode()
                if body:
                    headers.append(("Content-Type", ask.content_type))
                return client.send(
                    ask.method, target, body, headers=headers, timeout=timeout
                )
        finally:
            client.close()

    def _refused(self, ask: Ask, answer: Answer) -> ApiError:
        body = _json(answer)
        said = str(members(body).get("message", ""))
        said = last_line(said or answer.body[:4096].decode("utf-8", "replace"))
        path = ask.path.partition("?")[0]
        message = f"{ask.method} {path} was answered {answer.status}"
        return ApiError(
            f"{message}: {said}" if said else message, answer=answer, body=body
        )


def _json(answer: Answer) -> Any:
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
