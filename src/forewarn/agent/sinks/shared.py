"""The base of the receivers of the integrations, and what several of them share."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence

from forewarn.agent.handlers.port import faults_of
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.handlers.secret import exposure
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import NotifySettings
from forewarn.clock import Clock
from forewarn.instants import MINUTE, SECOND, Micros, format_duration
from forewarn.settings.forms import Option

TIMEOUT: Micros = 10 * SECOND
"""Default timeout for one notification."""

TIMEOUT_MAX: Micros = 5 * MINUTE

CHECK_SECONDS = 5.0
"""Timeout for checking one receiver in `agent check`."""


def timeout_key(usual: Micros = TIMEOUT) -> Option:
    """Return the setting `timeout`."""
    return Option(
        form=Forms.DURATION,
        least=SECOND // 10,
        most=TIMEOUT_MAX,
        text="Timeout for one notification, including the name lookup. Default: "
        f"`{format_duration(usual)}`.",
    )


class KindSink:
    """The base of the integrations: the settings that they share, and the check.

    A subclass defines `deliver`, and yields its problems in `_wrong`.
    """

    usual_timeout = TIMEOUT
    """Default timeout for one notification."""

    def __init__(self, settings: NotifySettings, clock: Clock) -> None:
        """Store the settings; nothing is contacted."""
        self._more = more = settings.more
        self._ca_file: str = more.get("ca_file", "")
        self._seconds: float = more.get("timeout", self.usual_timeout) / SECOND
        self._clock = clock
        self._secret_file = ""
        """The file of the receiver's secret; empty: none."""

    def check(self) -> Sequence[str]:
        """Return the problems of the receiver; no notification is sent."""
        problems = faults_of(self._wrong)
        exposed = exposure(self._secret_file) if self._secret_file else ""
        return [*problems, exposed] if exposed else problems

    def _wrong(self) -> Iterable[str]:
        """Return the problems, one sentence each; raises DeliveryError."""
        raise NotImplementedError


def send_locally(path: str, data: bytes, *, seconds: float) -> None:
    """Send one datagram to a local daemon, which may be busy; raises DeliveryError.

    Without data, only test whether the daemon can be reached.
    """
    if (family := getattr(socket, "AF_UNIX", None)) is None:
        raise DeliveryError(f"{path}: this system has no local sockets", may_pass=False)
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as wire:
            wire.settimeout(seconds)
            wire.connect(path)
            if data:
                wire.send(data)
    except OSError as error:
        raise DeliveryError(f"{path}: {error.strerror or error}") from error
