"""A plan: the guest behind each interface of this host."""

import enum
from dataclasses import dataclass
from typing import NamedTuple

SERVICE = "169.254.169.254"
"""The address of the service for guests (clause 1.1)."""

SERVICE_PORT = 80

LINK_LOCAL = "169.254.0.0/16"
"""The network that routers must not forward (RFC 3927, 2.7)."""

SHARED_LISTENER = "0.0.0.0:8080"
"""The default of `[metadata] listen`."""

ROUTING_TABLE = 16925
"""The first routing table, and the priority of its rule: before `main`, and a number
that no other program is likely to use."""

PORTS_MAX = 400
"""Maximum number of ports in a plan: more than a host has guests, and as many as `ip`
accepts in one route if all guests have the same address."""


class Way(enum.Enum):
    """The ways to identify a guest."""

    SOURCE = "source"
    """All guests use one listener, which identifies them by their source address."""
    LISTENER = "listener"
    """Each guest has a separate listener, chosen by its interface."""


class Listener(NamedTuple):
    """An address and port on which forewarn listens."""

    host: str
    port: int

    @property
    def is_wildcard(self) -> bool:
        """Return whether the listener is at every address of the host."""
        return self.host != SERVICE


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """The host's interface to one network card of a guest."""

    vm: str
    interface: str
    listener: Listener
    bridge: str = ""
    """The bridge of the interface; empty if the host routes to the interface."""
    addresses: tuple[str, ...] = ()
    """Source addresses of the guest; empty: any, because they are not used."""
    mac: str = ""
    """MAC address of the guest; empty if it is not checked."""

    @property
    def device(self) -> str:
        """Return the interface that the host's IP layer uses for the guest."""
        return self.bridge or self.interface


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan for all guests of one host."""

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
