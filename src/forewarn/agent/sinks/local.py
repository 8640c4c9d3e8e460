"""Datagrams to a daemon of this machine, by the socket that it has in a folder."""

from __future__ import annotations

import socket

from forewarn.agent.sinks.port import SinkError


def send_locally(path: str, data: bytes, *, seconds: float) -> None:
    """Send one datagram, which a daemon that is busy may delay; raises SinkError."""
    with reach_locally(path, seconds) as wire:
        try:
            wire.send(data)
        except OSError as error:
            raise SinkError(f"{path}: {error.strerror or error}") from error


def reach_locally(path: str, seconds: float) -> socket.socket:
    """Return a socket that is connected to a daemon's; raises SinkError."""
    family = getattr(socket, "AF_UNIX", None)
    if family is None:
        raise SinkError(f"{path}: this system has no such sockets", may_pass=False)
    wire = socket.socket(family, socket.SOCK_DGRAM)
    try:
        wire.settimeout(seconds)
        wire.connect(path)
    except OSError as error:
        wire.close()
        raise SinkError(f"{path}: {error.strerror or error}") from error
    return wire
