"""Code that several kinds of receivers share: settings, secrets, local sockets."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forewarn.agent.handlers.secret import SecretError, exposure, read_secret, whole
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks.port import SinkError
from forewarn.instants import MINUTE, SECOND, Micros, format_duration
from forewarn.settings.forms import Option

TIMEOUT: Micros = 10 * SECOND
"""Default timeout for one notification."""

TIMEOUT_MOST: Micros = 5 * MINUTE

CHECK_SECONDS = 5.0
"""Timeout for checking one receiver in `agent check`."""


def timeout_key(usual: Micros = TIMEOUT) -> Option:
    """Return the setting `timeout`."""
    return Option(
        form=Forms.DURATION,
        least=SECOND // 10,
        most=TIMEOUT_MOST,
        text="Timeout for one notification, including the name lookup. Default: "
        f"`{format_duration(usual)}`.",
    )


def seconds_of(settings: NotifySettings, usual: Micros = TIMEOUT) -> float:
    """Return the timeout for one notification, in seconds."""
    more: Mapping[str, Any] = settings.more
    return more.get("timeout", usual) / SECOND


def secret_in(file: str, *, parts: Callable[[str], Sequence[str]] = whole) -> str:
    """Return a secret; raises SinkError, to be retried since the file may be fixed.

    `parts` returns the secret parts of it.
    """
    try:
        return read_secret(file, parts=parts)
    except SecretError as error:
        raise SinkError(error.message) from error


def secret_faults(
    file: str, *, parts: Callable[[str], Sequence[str]] = whole
) -> list[str]:
    """Return the problems of a secret's file, one sentence each."""
    try:
        read_secret(file, parts=parts)
    except SecretError as error:
        return [error.message]
    exposed = exposure(file)
    return [exposed] if exposed else []


def send_locally(path: str, data: bytes, *, seconds: float) -> None:
    """Send one datagram to a local daemon, which may be busy; raises SinkError."""
    with reach_locally(path, seconds) as wire:
        try:
            wire.send(data)
        except OSError as error:
            raise SinkError(f"{path}: {error.strerror or error}") from error


def reach_locally(path: str, seconds: float) -> socket.socket:
    """Return a socket that is connected to a local daemon; raises SinkError."""
    family = getattr(socket, "AF_UNIX", None)
    if family is None:
        raise SinkError(f"{path}: this system has no local sockets", may_pass=False)
    wire = socket.socket(family, socket.SOCK_DGRAM)
    try:
        wire.settimeout(seconds)
        wire.connect(path)
    except OSError as error:
        wire.close()
        raise SinkError(f"{path}: {error.strerror or error}") from error
    return wire
