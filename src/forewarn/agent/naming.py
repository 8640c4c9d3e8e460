"""This VM's name, as far as the settings and the machine define it."""

from __future__ import annotations

import socket

from forewarn.agent.core.names import scale_set_name
from forewarn.agent.settings_model import AUTO, Settings


def host_name() -> str:
    """Return this computer's name without its domain."""
    return socket.gethostname().partition(".")[0]


def named(settings: Settings) -> str:
    """Return this VM's name by the settings; empty: the endpoint is asked."""
    watch = settings.watch
    if watch.scale_set_names:
        own = socket.gethostname() if watch.name == AUTO else watch.name
        return scale_set_name(own.partition(".")[0]) or (
            "" if own != watch.name else own
        )
    return "" if watch.name == AUTO else watch.name
