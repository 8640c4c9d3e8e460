"""A lock of a server with the FleetLock protocol, such as airlock.

Each request is a POST with the header and the body that the protocol defines. The server
counts the holders. Status 200 means success; any other response has a kind and a message.
The protocol has no expiry and no request for the current holders.
https://coreos.github.io/zincati/development/fleetlock/protocol/
"""

from __future__ import annotations

import json

from forewarn.agent.foreign import json_members
from forewarn.agent.handlers.posting import (
    ANSWER_BYTES_MAX,
    REACH_TIMEOUT,
    REDIRECTS,
    said_in,
)
from forewarn.agent.handlers.records import last_line
from forewarn.agent.handlers.run_context import RunContext
from forewarn.agent.handlers.secret import read_token
from forewarn.agent.locks.port import Grant, LockError
from forewarn.agent.settings_model import LockSettings
from forewarn.agent.wire.http import Answer, Client, parse_url
from forewarn.clock import Clock
from forewarn.instants import SECOND

TAKE, RELEASE = "/v1/pre-reboot", "/v1/steady-state"

HEADER = ("fleet-lock-protocol", "true")
"""The required header, which shows that the request was not redirected."""

_DONE = 200
_HELD_STATUSES = frozenset({409, 423})
"""HTTP statuses with which some servers say that other clients hold the lock."""

_HELD_KIND = "lock_held"
_FULL_KINDS = "failed_lock"
"""The prefix of the error kinds with which other servers say so."""


class FleetLock:
    """One group of a FleetLock server."""

    def __init__(self, settings: LockSettings, *, clock: Clock) -> None:
        """Send nothing yet."""
        self._settings = settings
        self._url = parse_url(settings.url)
        self._clock = clock

    def take(self, holder: str, context: RunContext) -> Grant:
        """Take a slot, or confirm it; raises ForewarnError."""
        answer = self._post(TAKE, holder, context)
        if answer.status == _DONE:
            return Grant(is_held=True)
        kind, value = _error_of(answer)
        if _says_held(answer, kind) or kind.startswith(_FULL_KINDS):
            return Grant(is_held=False, detail=value or f"{kind or answer.status}")
        raise _refused(TAKE, answer)

    def release(self, holder: str, context: RunContext) -> None:
        """Release a slot; raises ForewarnError."""
        answer = self._post(RELEASE, holder, context)
        if answer.status == _DONE:
            return
        kind, _ = _error_of(answer)
        # Others hold the lock, so this VM does not, and has nothing to release.
        if not _says_held(answer, kind):
            raise _refused(RELEASE, answer)

    def describe(self, context: RunContext) -> str:
        """Check that the server accepts connections; raises ForewarnError."""
        self._headers()
        timeout = min(REACH_TIMEOUT, round(context.remaining() * SECOND))
        self._client().reach(timeout=timeout)
        return (
            f"{self._url.base} accepts connections; FleetLock does not show the holders"
        )

    def _post(self, path: str, holder: str, context: RunContext) -> Answer:
        client = self._client()
        with context.on_stop(client.interrupt):
            # `send` uses a new connection and closes it.
            answer = client.send(
                "POST",
                f"{self._url.target.rstrip('/')}{path}",
                body_of(holder, self._settings.group),
                headers=self._headers(),
                timeout=max(round(context.remaining() * SECOND), 1),
            )
        if answer.status == _DONE and (why := _unexpected_content(answer)):
            raise LockError(f"POST {path} was answered 200 with {why}")
        return answer

    def _client(self) -> Client:
        settings = self._settings
        return Client(
            self._url,
            clock=self._clock,
            ca_file=settings.ca_file,
            cert_file=settings.cert_file,
            key_file=settings.key_file,
            body_max=ANSWER_BYTES_MAX,
        )

    def _headers(self) -> list[tuple[str, str]]:
        if not (file := self._settings.token_file):
            return [HEADER]
        return [HEADER, ("Authorization", f"Bearer {read_token(file)}")]


def body_of(holder: str, group: str) -> bytes:
    """Return the body of a request, with exactly the bytes that Zincati sends."""
    # Zincati's serializer indents by two spaces and does not escape non-ASCII letters.
    return json.dumps(
        {"client_params": {"id": holder, "group": group}}, indent=2, ensure_ascii=False
    ).encode("utf-8", "replace")


def _error_of(answer: Answer) -> tuple[str, str]:
    """Return the kind and the message of an error response; empty if it has none."""
    members_read = json_members(answer.body) or {}
    kind, value = members_read.get("kind"), members_read.get("value")
    if not isinstance(kind, str) or not isinstance(value, str):
        return "", ""
    return last_line(kind), last_line(value)


def _says_held(answer: Answer, kind: str) -> bool:
    return kind == _HELD_KIND or (
        answer.status in _HELD_STATUSES and not _is_page(answer)
    )


def _refused(path: str, answer: Answer) -> LockError:
    kind, value = _error_of(answer)
    reason = ": ".join(filter(None, (kind, value)))
    if answer.status in REDIRECTS or not reason:
        reason = said_in(answer)
    message = f"POST {path} was answered {answer.status}"
    return LockError(f"{message}: {reason}" if reason else message)


def _unexpected_content(answer: Answer) -> str:
    """Return content of a 200 response that no FleetLock server sends; empty: none.

    The protocol does not define the body of a success. Servers send one word or nothing.
    """
    kind, value = _error_of(answer)
    if kind or value:
        return f"an error: {kind}: {value}"
    if error := (json_members(answer.body) or {}).get("error"):
        return f"an error: {last_line(str(error))}"
    if _is_page(answer):
        return (
            "a web page: is this a proxy or a login page instead of a FleetLock server?"
        )
    return ""


def _is_page(answer: Answer) -> bool:
    content_type = answer.header("content-type") or ""
    return content_type.startswith("text/html") or answer.body.lstrip()[:1] == b"<"


def make(settings: LockSettings, *, clock: Clock, **_: object) -> FleetLock:
    """Create the lock."""
    return FleetLock(settings, clock=clock)
