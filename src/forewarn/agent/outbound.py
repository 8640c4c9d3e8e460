"""The threads for the main loop's requests to peers, the lock and the alert server.

Each answer comes back as an input of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from forewarn.agent.core.gate import GateAnswer
from forewarn.agent.core.model import Input
from forewarn.agent.core.names import key_of
from forewarn.agent.handlers.run_context import context_for
from forewarn.agent.peers import Peers
from forewarn.agent.settings_model import Settings
from forewarn.clock import Clock
from forewarn.instants import SECOND

if TYPE_CHECKING:
    from forewarn.agent.alerts.server import Gatekeeper
    from forewarn.agent.locks.port import Locker

LOOK_SECONDS = 5.0
"""Timeout for one look at the lock or the alerts in `agent check`."""


def peers_of(
    settings: Settings, token: str, clock: Clock, tell: Callable[[Input], None]
) -> Peers:
    """Return the sender of requests to the peers, with their shared token."""
    peers = settings.peers
    urls = {key_of(name): url for name, url in peers.urls}

    def url_of(name: str) -> str:
        if urls:
            return urls.get(key_of(name), "")
        return peers.url.replace("{name}", name)

    return Peers(
        url_of,
        token=token,
        timeout=peers.timeout,
        clock=clock,
        tell=tell,
        ca_file=peers.ca_file,
    )


def locker_of(
    settings: Settings,
    environ: Mapping[str, str],
    clock: Clock,
    tell: Callable[[Input], None],
) -> Locker | None:
    """Return the sender of requests for the lock; None: the settings have no lock."""
    if not settings.lock.kind:
        return None
    # An agent without a lock does not load these modules.
    from forewarn.agent.locks.port import Locker, make_lock  # noqa: PLC0415

    return Locker(
        lambda: make_lock(settings.lock, environ, clock),
        tell=tell,
        timeout=settings.lock.timeout,
        clock=clock,
    )


def look_at_lock(settings: Settings, environ: Mapping[str, str], clock: Clock) -> str:
    """Return a sentence about the lock's holders, for `check`; raises ForewarnError."""
    from forewarn.agent.locks.port import make_lock  # noqa: PLC0415 - as above

    lock = make_lock(settings.lock, environ, clock)
    return lock.look(context_for(LOOK_SECONDS, clock))


def gatekeeper_of(
    settings: Settings, clock: Clock, tell: Callable[[Input], None]
) -> Gatekeeper | None:
    """Return the sender of requests to the alert server; None: there is no gate."""
    if not settings.gate.url:
        return None
    # An agent without a gate does not load these modules.
    from forewarn.agent.alerts.server import (  # noqa: PLC0415
        AlertServer,
        Gatekeeper,
    )

    return Gatekeeper(
        lambda: AlertServer(settings.gate, clock=clock),
        tell=tell,
        timeout=settings.gate.timeout,
    )


def look_at_alerts(settings: Settings, clock: Clock) -> tuple[bool, str]:
    """Return whether the gate is open now, and a sentence, for `check`.

    Raises ForewarnError if there is no usable answer.
    """
    from forewarn.agent.alerts.server import AlertServer  # noqa: PLC0415 - as above

    found = AlertServer(settings.gate, clock=clock).ask(round(LOOK_SECONDS * SECOND))
    rest = found.all_alerts - found.alerts
    others = f"; active alerts that do not count: {rest}" if rest else ""
    return found.answer is GateAnswer.CLEAR, f"{found.text}{others}"
