"""Problems that need attention, as values."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from forewarn.drivers.port import Sighting
from forewarn.instants import Micros, format_instant, sortable
from forewarn.verbs.problem_kinds import PROBLEM_RANKS, ProblemKind

SIGHTED_MAX = 20
"""Maximum VMs of a problem that are shown with what was seen of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem."""

    kind: ProblemKind
    name: str
    """The name that distinguishes the problem from others of its kind."""
    text: str
    short: str = ""
    """The text without commands, for those who have buttons; empty: it has none."""
    cause: str = ""
    """Why VMs are down, as an operator or the driver said; only for operators."""
    since: Micros = 0
    """0 if unknown."""
    operation: str = ""
    request: str = ""
    """The request of the operation."""
    target: str = ""
    """The target of the operation, a host or VM."""
    tenants: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    vms: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    webhook: str = ""
    campaign: str = ""
    """The name of the campaign."""
    actions: tuple[str, ...] = ()
    """Commands that can end the problem."""
    sighted: tuple[Sighting, ...] = ()
    """The last sightings of its VMs, if the outcome of their operation is unknown;
    only for operators."""

    @property
    def problem_id(self) -> str:
        """Return the ID, which stays the same while the problem lasts."""
        return f"{self.kind.value}:{self.name}"

    @property
    def key(self) -> str:
        """Return the sort key: the worst kind first, then the oldest."""
        return (
            f"{PROBLEM_RANKS[self.kind.value]:02d}.{sortable(self.since)}.{self.name}"
        )


def sighted(problem: Problem, seen: Iterable[Sighting]) -> Problem:
    """Return a problem with what was seen of its VMs, if an outcome is unknown."""
    if problem.kind is not ProblemKind.OUTCOME_UNKNOWN:
        return problem
    own = (sighting for sighting in seen if sighting.vm in problem.vms)
    return replace(problem, sighted=tuple(islice(own, SIGHTED_MAX)))


def sighting_report(sighting: Sighting) -> dict[str, Any]:
    """Return what was seen of a VM, as JSON."""
    return {
        "vm": sighting.vm,
        "running": sighting.running,
        "host": sighting.host or None,
        "at": format_instant(sighting.at),
        "text": sighting.text,
    }
