"""Where the VMs of a simulation are reached: a port for each, or an address for each.

`127.0.0.1:8301` gives the first VM port 8301, the next 8302, and so on.
`127.0.1.0/24:80` gives each VM an address of its own on loopback, and all one port, as
the real endpoint has it. Values only; nothing here listens.
"""

import ipaddress
from dataclasses import dataclass, replace

from forewarn.fleet.validators import split_listener
from forewarn.metadata.server import Address
from forewarn.protocol.errors import BadRequestError

PORT_MAX = 65_535
PORT = 8301
"""Of the first VM, unless somebody says otherwise; nothing well known is there."""

_EXAMPLES = "write HOST:PORT such as 127.0.0.1:8301, or a network: 127.0.1.0/24:80"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The addresses that VMs get, by number."""

    host: str = "127.0.0.1"
    port: int = PORT
    """Of the first VM; 0: the system chooses for each."""
    hosts: int = 0
    """How many addresses follow `host`, each with this port; 0: ports count up."""

    def __len__(self) -> int:
        """Return how many VMs have a place."""
        if self.hosts:
            return self.hosts
        return PORT_MAX if self.port == 0 else PORT_MAX + 1 - self.port

    def at(self, number: int) -> Address:
        """Return the address of the VM of this number, counted from 0."""
        assert 0 <= number < len(self), number
        if self.hosts:
            return str(ipaddress.ip_address(self.host) + number), self.port
        return self.host, self.port + number if self.port else 0

    def beyond(self, number: int) -> "Places":
        """Return the same places without the first ones."""
        return replace(self, port=self.port + number)


def parse_places(text: str) -> Places:
    """Return the places that `--listen` writes; raises BadRequestError."""
    network, _, port = text.rpartition(":")
    if "/" in network:
        try:
            found = ipaddress.ip_network(network.strip("[]"))
            number = int(port)
        except ValueError:
            raise _unreadable(text) from None
        if not 0 < number <= PORT_MAX:
            raise _unreadable(text)
        # The first and the last of a network of IPv4 are no one's.
        first = next(found.hosts())
        count = min(max(found.num_addresses - 2, 1), PORT_MAX)
        return Places(host=str(first), port=number, hosts=count)
    address = split_listener(text)
    if address is None or not address[0]:
        raise _unreadable(text)
    return Places(host=address[0], port=address[1])


def _unreadable(text: str) -> BadRequestError:
    return BadRequestError(f"{text!r} is no place for VMs", hint=_EXAMPLES)


def position_name(number: int) -> str:
    """Return what a position is called while no VM has it; no VM is called so."""
    return f"position {number}"


def is_vacant(name: str) -> bool:
    """Tell whether a name is that of a position, and of no VM."""
    return name.startswith("position ")
