"""A lock in a key of Consul, whose value is the list of holders.

Each write names the ModifyIndex of the key that was read. Consul's sessions are not used:
a session ends with Consul's agent on this VM, so a reboot would release the lock.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.agent.forms import percent_quoted
from forewarn.agent.handlers.run_context import RunContext
from forewarn.agent.integrations.api import (
    NOT_FOUND,
    ApiError,
    Ask,
    Shape,
    TokenApi,
)
from forewarn.agent.locks.port import LockError
from forewarn.agent.locks.register import Page, RegisterLock, server_time
from forewarn.agent.settings_model import LockSettings
from forewarn.agent.wire.answers import Answer
from forewarn.clock import Clock
from forewarn.instants import SECOND

URL = "http://127.0.0.1:8500"
"""Consul's default address of its local agent."""

PREFIX = "forewarn/locks/"
"""The prefix of all keys."""


class KeyRegister:
    """A key of Consul whose value is the text that the agents share."""

    def __init__(self, settings: LockSettings, *, clock: Clock) -> None:
        """Send nothing yet."""
        self._key = f"{PREFIX}{settings.group}"
        self._path = f"/v1/kv/{PREFIX}{percent_quoted(settings.group)}"
        self._seconds = settings.timeout / SECOND
        self._clock = clock
        self._api = TokenApi(
            settings.url or URL,
            header="X-Consul-Token",
            token_file=settings.token_file,
            clock=clock,
            ca_file=settings.ca_file,
            cert_file=settings.cert_file,
            key_file=settings.key_file,
        )

    def read(self, context: RunContext) -> Page:
        """Return the value of the key; raises HandlerError."""
        now = self._clock.now()
        try:
            path = f"{self._path}?consistent"
            answer, entries = self._asked("GET", path, context, shape=Shape.LIST)
        except ApiError as error:
            # For a missing key, Consul sends an empty body; a proxy sends a string.
            if error.status != NOT_FOUND or error.answer.body.strip():
                raise
            return Page(text="", version=0, now=server_time(error.answer, now))
        text, version = _entry(entries, self._key)
        return Page(text=text, version=version, now=server_time(answer, now))

    def write(self, text: str, page: Page, context: RunContext) -> bool:
        """Write the value if it has not changed since it was read; raises HandlerError."""
        path = f"{self._path}?cas={page.version}"
        body = json.loads(text)
        _, is_written = self._asked("PUT", path, context, body, shape=Shape.JSON)
        if not isinstance(is_written, bool):
            raise LockError(
                f"the answer to PUT {self._path} was neither true nor false"
            )
        return is_written

    def _asked(
        self,
        method: str,
        path: str,
        context: RunContext,
        body: Any = None,
        *,
        shape: Shape,
    ) -> tuple[Answer, Any]:
        # Once: the main loop repeats its request.
        ask = Ask(
            method=method,
            path=path,
            json=body,
            again=False,
            seconds=self._seconds,
            shape=shape,
        )
        right = f'its token needs key "{self._key}" {{ policy = "write" }}'
        return self._api.allowed(ask, context, right)


def _entry(entries: Sequence[Mapping[str, Any]], key: str) -> tuple[str, int]:
    """Return the value of a key and its ModifyIndex; raises LockError."""
    entry: Mapping[str, Any] = entries[0] if len(entries) == 1 else {}
    version, value = entry.get("ModifyIndex"), entry.get("Value")
    is_whole = entry.get("Key") == key and "Value" in entry
    # The value of an empty key is null.
    if is_whole and isinstance(version, int) and isinstance(value, (str, type(None))):
        try:
            return base64.b64decode(value or "", validate=True).decode(), version
        except ValueError:
            pass
    raise LockError("the answer to GET of the key is not an entry of Consul")


def make(settings: LockSettings, *, clock: Clock, **_: object) -> RegisterLock:
    """Create the lock."""
    return RegisterLock(KeyRegister(settings, clock=clock), settings, clock=clock)
