"""The record of a blackout of the service: a time in which no planned work begins.

Blackouts of one campaign are part of its record.
"""

from collections.abc import Collection
from dataclasses import dataclass

from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.model import LABEL
from forewarn.instants import Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.frozen import same_as


@dataclass(frozen=True, slots=True, kw_only=True)
class WideBlackout:
    """A blackout of the whole fleet, or of a part of it."""

    name: str
    time: Blackout
    """When it is; it has the same name."""
    places: tuple[str, ...] = ()
    """Places of its hosts, such as `rack=r7`; empty: the whole fleet."""
    by: Actor
    """The actor that set it last."""
    reason: str
    since: Micros
    """When it was set last."""
    revision: int = 0

    key = same_as("name")
    """The key in a store."""

    @property
    def is_of_fleet(self) -> bool:
        """Return whether it is a blackout of the whole fleet."""
        return not self.places

    def covers(self, places: Collection[str]) -> bool:
        """Return whether it is a blackout of a host that stands at these places.

        Places of one kind are alternatives, and a host matches every kind.
        """
        kinds = {kind_of(place) for place in self.places}
        at = {kind_of(place) for place in self.places if place in places}
        return kinds == at


def kind_of(place: str) -> str:
    """Return the kind of a place: `rack`, or the name of a label as `label=model`."""
    kind, _, name = place.partition("=")
    return f"{kind}={name.partition('=')[0]}" if kind == LABEL else kind
