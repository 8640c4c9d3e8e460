"""Keys that several kinds of receivers have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.agent.options import Forms
from forewarn.agent.settings_model import NotifySettings
from forewarn.instants import MINUTE, SECOND, Micros, format_duration
from forewarn.settings.forms import Option

TIMEOUT: Micros = 10 * SECOND
"""For one notification: who takes no longer is never noticed, who takes longer is ill."""

TIMEOUT_MOST: Micros = 5 * MINUTE

CHECK_SECONDS = 5.0
"""For a look at one receiver, while a person waits for `agent check`."""


def timeout_key(usual: Micros = TIMEOUT) -> Option:
    """Return the key `timeout`."""
    return Option(
        form=Forms.DURATION,
        least=SECOND // 10,
        most=TIMEOUT_MOST,
        text="For one notification, from finding the host to the last answer. Default: "
        f"`{format_duration(usual)}`.",
    )


def seconds_of(settings: NotifySettings, usual: Micros = TIMEOUT) -> float:
    """Return how long one notification may take, in seconds."""
    more: Mapping[str, Any] = settings.more
    return more.get("timeout", usual) / SECOND
