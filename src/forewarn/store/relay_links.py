"""The record of the relay of a host: whether it has confirmed what its VMs must see."""

from dataclasses import dataclass

from forewarn.instants import Micros
from forewarn.protocol.frozen import same_as


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayLink:
    """The relay of one host, from its first connection on.

    It is one row for a host, and is written only when a relay comes or becomes silent.
    """

    host: str
    term: int
    """The term of the service in which the relay was last heard. In a later term, nothing
    is known of it."""
    silent_since: Micros = 0
    """Time since which the relay is disconnected, or has a change that it has not confirmed;
    0: neither."""
    revision: int = 0

    key = same_as("host")
    """The key in a store."""
