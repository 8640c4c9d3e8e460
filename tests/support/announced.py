"""Invariants of fault domains: which maintenance may start, and what a rollout
announces."""

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import VmState
from forewarn.protocol.operations import (
    STARTED_STATES,
    WAITING_STATES,
    Action,
    Operation,
    OperationState,
    TargetKind,
)
from forewarn.protocol.verbs import PLANNED_VERBS
from tests.support.moments import Moment


def s2_one_domain_is_announced(moment: Moment) -> None:
    """6.3: a rollout announces no host beside another fault domain of its scopes.

    The budget `overlap_notice` of a campaign allows further ones.
    """
    for before, after in moment.changed():
        if before is None or before.state is not OperationState.PLANNED:
            continue
        if after.state not in WAITING_STATES | STARTED_STATES:
            continue
        vms = [moment.mirror.vms[name] for name in after.vms]
        for scope in {vm.scope for vm in vms}:
            own = {vm.fault_domain for vm in vms if vm.scope == scope}
            others = _domains_in_use(moment, scope, besides=after.operation_id)
            is_alone = not others if len(own) > 1 else others <= own
            is_within = len(own | others) <= 1 + _overlap(moment, after)
            assert is_alone or is_within, f"2.3: {scope}, {others}: {after}"


def _overlap(moment: Moment, operation: Operation) -> int:
    """Return how many further fault domains its campaign may announce."""
    campaign = moment.mirror.requests[operation.request].campaign
    if not campaign:
        return 0
    return moment.mirror.table(CampaignRecord)[campaign].budget.overlap_notice


def _domains_in_use(moment: Moment, scope: str, *, besides: str) -> set[int]:
    """Return the fault domains that are announced, in maintenance or down."""
    mirror = moment.mirror
    announced = {
        resource.fault_domain
        for event in mirror.live_events
        if event.scope == scope
        and event.operation != besides
        and mirror.operations[event.operation].verb in PLANNED_VERBS
        for resource in event.resources
    }
    return announced | {
        vm.fault_domain
        for vm in moment.members(scope)
        if vm.state is VmState.DOWN or set(vm.started) - {besides}
    }


def s1c_no_domains_together(moment: Moment) -> None:
    """6.3: no maintenance of a host that has two fault domains of a scope starts.

    All VMs on the host count, even those that came after the announcement. Work without
    impact affects none of them.
    """
    for operation in moment.started():
        if (
            not operation.routine
            or operation.target_kind is not TargetKind.HOST
            or operation.action in {Action.LIVE_MIGRATE, Action.NONE}
        ):
            continue
        there: dict[str, set[int]] = {}
        for vm in moment.mirror.live_vms:
            if vm.host == operation.host:
                there.setdefault(vm.scope, set()).add(vm.fault_domain)
        for scope, domains in there.items():
            assert len(domains) == 1, (operation, scope, domains)


ANNOUNCED = (s1c_no_domains_together, s2_one_domain_is_announced)
"""Asked after every commit."""
