"""Find the agent that runs on this machine, by its status at `listen`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from forewarn.agent.endpoint_lock import holder_of
from forewarn.agent.foreign import json_members
from forewarn.agent.journal.lock import last_holder
from forewarn.agent.settings_model import Settings
from forewarn.agent.wire.http import Client, HttpError, Trouble, parse_url
from forewarn.clock import SystemClock
from forewarn.instants import SECOND, Micros

STATUS_TIMEOUT: Micros = 3 * SECOND
STATUS_BYTES_MAX = 64 << 20
"""Maximum size of a status: ten thousand events have some megabytes."""


def asked(settings: Settings) -> dict[str, Any]:
    """Return the status of the agent at `listen`; raises HttpError."""
    listen = settings.watch.listen
    if not listen:
        raise HttpError(Trouble.REFUSED, "the settings have no `listen` address")
    if listen.endswith(":0"):
        raise HttpError(
            Trouble.REFUSED, "`listen` has port 0, so the actual port is unknown"
        )
    # An agent that listens at every address also listens at the local one.
    reached = listen.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:")
    url = parse_url(f"http://{reached}")
    with contextlib.closing(
        Client(url, clock=SystemClock(), body_max=STATUS_BYTES_MAX)
    ) as client:
        answer = client.get("/status", timeout=STATUS_TIMEOUT)
    document = json_members(answer.body)
    if document is None or not isinstance(document.get("events"), list):
        raise HttpError(Trouble.MALFORMED, "another program answers there")
    return document


def shown(settings: Settings) -> Mapping[str, Any]:
    """Return the status of the agent at `listen`; empty: no agent answers."""
    try:
        return asked(settings)
    except HttpError:
        return {}


def process_of(settings: Settings, status: Mapping[str, Any]) -> int:
    """Return the process of the agent with this journal; 0: none was found.

    `status` is the result of `shown`.
    """
    whole = os.path.realpath(settings.watch.state)
    holder = holder_of(settings.watch.endpoint)
    if holder is not None and holder.process and holder.process == last_holder(whole):
        return holder.process
    process = status.get("process")
    is_ours = status.get("state") == whole
    return process if is_ours and isinstance(process, int) else 0
