"""The record of what the driver told about a host and the VMs on it."""

from dataclasses import dataclass

from forewarn.instants import Micros
from forewarn.protocol.abilities import Ability, Able
from forewarn.protocol.frozen import same_as


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAbilities:
    """The last answer of the driver about one host and its VMs.

    It is one row for a host, however many VMs are on it. A VM that has come since the
    answer is not in it, so what can be done to it is unknown until the next answer.
    """

    host: str
    told: tuple[Ability, ...]
    since: Micros
    """When the driver first gave this answer."""
    revision: int = 0

    key = same_as("host")
    """The key in a store."""

    @property
    def rules_out_something(self) -> bool:
        """Return whether the driver told that anything is not possible."""
        return any(ability.able is Able.NO for ability in self.told)
