"""Differences between the plan that an operator has seen and a new one.

Values in, values out. A service keeps the outlines of its last plans, so that a start with
an outdated digest can say what is different.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forewarn.protocol.errors import RefusedError

if TYPE_CHECKING:
    # A service that plans nothing does not load it.
    from forewarn.campaigns.planner import CampaignPlan

REMEMBERED_MAX = 8
"""Plans that are remembered: 1.5 MB each for 100,000 hosts, and operators start a plan
soon."""

NAMED_MAX = 20
"""Hosts of a difference that are named: one screen. All of them are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutline:
    """The part of a plan that an operator agrees to: some 15 bytes for each host."""

    digest: str
    campaign: str
    """The campaign of the file, as text."""
    hosts: str
    """The names of the hosts in their order, one a line."""
    vms: "array[int]"
    """VMs of each host."""
    limits: str
    """The resolved budgets, stages and refusals, as text."""

    @property
    def names(self) -> list[str]:
        """Return the names of the hosts in their order."""
        return self.hosts.split("\n") if self.hosts else []


class SeenPlans:
    """The outlines of the last plans of a service, by their digests."""

    def __init__(self) -> None:
        """Know no plan."""
        self._outlines: dict[str, PlanOutline] = {}

    def keep(self, outline: PlanOutline) -> None:
        """Remember a plan, and forget the oldest one if there are too many."""
        self._outlines.pop(outline.digest, None)
        self._outlines[outline.digest] = outline
        if len(self._outlines) > REMEMBERED_MAX:
            del self._outlines[next(iter(self._outlines))]

    def of(self, digest: str) -> PlanOutline | None:
        """Return the plan with a digest; None: it is not one of the last."""
        return self._outlines.get(digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDrift:
    """The difference between two plans."""

    gone: tuple[str, ...]
    """The first hosts that the new plan lacks."""
    gone_count: int
    new: tuple[str, ...]
    new_count: int
    moved_count: int
    """Hosts of both plans that come earlier or later among these."""
    vms_before: int
    vms_after: int
    has_other_file: bool
    """Whether the campaign file was changed."""
    has_other_limits: bool
    """Whether a budget, a stage or a refused host is different."""


class DriftedError(RefusedError):
    """The plan has changed since its operator saw it; nothing was started."""

    def __init__(self, message: str, *, drift: PlanDrift, hint: str) -> None:
        """Create the error with the difference."""
        super().__init__(message, hint=hint)
        self.drift = drift


def outline_of(plan: "CampaignPlan") -> PlanOutline:
    """Return the outline of a plan."""
    budget = plan.limits
    return PlanOutline(
        digest=plan.digest,
        campaign=repr(plan.campaign),
        hosts="\n".join(plan.hosts),
        vms=array("L", plan.vms),
        limits=repr(
            (
                [end for end, _ in plan.stages],
                (budget.in_flight, budget.unavailable, budget.tenant_most),
                [list(group.most) for group in budget.groups],
                plan.refusals,
            )
        ),
    )


def drift_between(before: PlanOutline, after: PlanOutline) -> PlanDrift:
    """Return what is different in a new plan."""
    old, new = before.names, after.names
    gone, added = _without(old, new), _without(new, old)
    moved = zip(_without(old, gone), _without(new, added), strict=True)
    return PlanDrift(
        gone=tuple(gone[:NAMED_MAX]),
        gone_count=len(gone),
        new=tuple(added[:NAMED_MAX]),
        new_count=len(added),
        moved_count=sum(one != other for one, other in moved),
        vms_before=sum(before.vms),
        vms_after=sum(after.vms),
        has_other_file=before.campaign != after.campaign,
        has_other_limits=before.limits != after.limits,
    )


def _without(names: Sequence[str], others: Iterable[str]) -> list[str]:
    left_out = frozenset(others)
    return [name for name in names if name not in left_out]
