"""A plan: which guest is behind which interface of this host."""

import enum
from dataclasses import dataclass
from typing import NamedTuple

SERVICE = "169.254.169.254"
"""Where a guest looks for the service (clause 1.1)."""

SERVICE_PORT = 80

LINK_LOCAL = "169.254.0.0/16"
"""What no router may forward (RFC 3927, 2.7)."""

SHARED_LISTENER = "0.0.0.0:8080"
"""Where `[metadata] listen` is unless an operator says otherwise."""

ROUTING_TABLE = 16925
"""The first routing table, and the priority of its rule: before `main`, and a
number that nobody else is likely to have."""

PORTS_MAX = 400
"""Of one plan: far more than a host has guests, and as many as `ip` still takes for
one route where all have the same address."""


class Way(enum.Enum):
    """How a guest is told from the others."""

    SOURCE = "source"
    """All ask one listener, which knows them by their source address."""
    LISTENER = "listener"
    """Each has a listener of its own, chosen by the interface."""


class Listener(NamedTuple):
    """Where forewarn listens."""

    host: str
    port: int

    @property
    def is_wildcard(self) -> bool:
        """Tell whether it takes its port at every address of the host."""
        return self.host != SERVICE


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """The host's end of one network card of a guest."""

    vm: str
    interface: str
    listener: Listener
    bridge: str = ""
    """What the interface is a port of; empty: the host routes to it."""
    addresses: tuple[str, ...] = ()
    """What the guest may send from; empty: anything, since it is not asked for."""
    mac: str = ""
    """The guest's own; empty: not looked at."""

    @property
    def device(self) -> str:
        """Return the interface on which the host's IP meets the guest."""
        return self.bridge or self.interface


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All guests of one host."""

    way: Way
    ports: tuple[Port, ...]
    table: int = ROUTING_TABLE

    @property
    def routed(self) -> tuple[Port, ...]:
        """Return the ports that the host routes to."""
        return tuple(port for port in self.ports if not port.bridge)

    @property
    def bridged(self) -> tuple[Port, ...]:
        """Return the ports of bridges."""
        return tuple(port for port in self.ports if port.bridge)
