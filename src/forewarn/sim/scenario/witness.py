"""A stage's journal as the witness of what clients did."""

from collections.abc import Sequence

from forewarn.instants import Micros
from forewarn.sim.journal import Journal, Seen

_HARMLESS = frozenset({"", "ok", "delay", "slow"})
"""Faults with which an answer arrives as it was, if late."""


class Witness:
    """Tells from a journal what VMs asked."""

    def __init__(self, journal: Journal) -> None:
        """Read `journal`, whenever somebody asks."""
        self._journal = journal

    def polls(self, vm: str, *, since: Micros) -> Sequence[Micros]:
        """Return when the VM was given its document as it is, in order."""
        found = self._journal.find(vm=vm, method="GET", from_time=since)
        return [seen.at for seen in found if was_given(seen)]

    def deviations(self, vm: str, *, since: Micros) -> Sequence[str]:
        """Return what the VM did against the protocol; empty: any VM."""
        return [
            f"{seen.vm or seen.address}: {each}"
            for seen in self._journal.find(
                vm=vm or None, from_time=since, deviating=True
            )
            for each in seen.deviations
        ]


def was_given(seen: Seen) -> bool:
    """Tell whether a VM was given its document as it is."""
    return seen.is_answered_poll and seen.fault.partition(" ")[0] in _HARMLESS
