"""A campaign that can be started: its hosts in their order, and its terms."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from forewarn.campaigns.model import (
    Campaign,
    Impact,
    Stage,
    Step,
    Tolerance,
)
from forewarn.campaigns.record import BudgetTerms, StageTerms
from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.windows import Window
from forewarn.instants import Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The values that the start of a campaign stores, from one snapshot of the fleet."""

    name: str
    reason: str
    impact: Impact
    hosts: tuple[str, ...]
    """The hosts in the order in which they are announced."""
    digest: str
    """Digest of the plan."""
    text: str
    """The campaign file."""
    stages: tuple[StageTerms, ...]
    budget: BudgetTerms
    tolerance: Tolerance
    windows: tuple[Window, ...]
    blackouts: tuple[Blackout, ...]
    checks: tuple[str, ...]
    steps: tuple[Step, ...]
    tenant_most: tuple[tuple[str, int], ...]
    """Maximum VMs of each tenant with VMs on the hosts."""
    slow: Micros
    planned_end: Micros
    """The end in the forecast with typical hosts."""
    description: str = ""
    """The text for tenants; empty: the usual one."""
    priority: int = 0
    is_emergency: bool = False
    ignored: tuple[str, ...] = ()
    """The windows and blackouts that an emergency campaign ignores, for the history."""
    seen: frozenset[tuple[str, int]] = frozenset()
    """The other open campaigns of the snapshot, which have none of the hosts: their IDs
    and numbers of hosts."""


def prepare(
    campaign: Campaign,
    *,
    hosts: tuple[str, ...],
    stages: Iterable[tuple[int, Stage]],
    digest: str,
    text: str,
    planned_end: Micros,
    tenant_most: tuple[tuple[str, int], ...] = (),
    most_vms: int = 0,
    seen: frozenset[tuple[str, int]] = frozenset(),
) -> Prepared:
    """Return the campaign with the hosts and stages of its plan.

    `stages` has the number of hosts up to the end of each, and `most_vms` is the number
    of VMs of its largest host.
    """
    tolerance = campaign.tolerance
    if tolerance.vms_down is None:
        tolerance = replace(tolerance, vms_down=max(1, most_vms))
    terms: list[StageTerms] = []
    start = 0
    for end, stage in stages:
        terms.append(
            StageTerms(hosts=end - start, soak=stage.soak, approval=stage.approval)
        )
        start = end
    budget = campaign.budget
    return Prepared(
        name=campaign.name,
        reason=campaign.reason,
        impact=campaign.impact,
        hosts=hosts,
        digest=digest,
        text=text,
        stages=tuple(terms),
        budget=BudgetTerms(
            in_flight=str(budget.in_flight),
            unavailable="" if budget.unavailable is None else str(budget.unavailable),
            by=tuple((limit.label, str(limit.most)) for limit in budget.by),
            tenant_vms="" if budget.tenant_vms is None else str(budget.tenant_vms),
            overlap_notice=budget.overlap_notice,
        ),
        tolerance=tolerance,
        windows=campaign.windows,
        blackouts=campaign.blackouts,
        checks=tuple(check.use for check in campaign.checks),
        steps=campaign.steps,
        tenant_most=tenant_most,
        slow=campaign.expect.slow,
        planned_end=planned_end,
        description=campaign.description,
        priority=campaign.priority,
        is_emergency=campaign.is_emergency,
        ignored=campaign.ignored,
        seen=seen,
    )
