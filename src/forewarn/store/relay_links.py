"""The record of the relay of a host: whether it has confirmed what its VMs must see."""

from dataclasses import dataclass

from forewarn.instants import Micros


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
    """Since when it has not confirmed a change, or is away; 0: it has confirmed all."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return the key of the record."""
        return self.host
