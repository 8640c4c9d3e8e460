"""What a tenant is told of why its operation waits."""

from dataclasses import replace

import pytest

from forewarn.control.redaction.redact import actor_for, for_tenant
from forewarn.instants import MINUTE
from forewarn.protocol import blockers
from forewarn.protocol.actors import (
    CLOCK,
    DRIVER,
    PLATFORM,
    POLICY,
    VMS,
    Actor,
    operator,
    service_part,
    tenant_user,
    vm_actor,
)
from forewarn.protocol.blockers import AnyBlocker, CallEnd
from forewarn.protocol.no_place import NoPlace, Unfit, UnfitHosts
from forewarn.protocol.turn_blockers import BudgetKind
from forewarn.protocol.verbs import Action
from forewarn.wording.operators import reason

FULL = NoPlace(unfit=(UnfitHosts(why=Unfit.FULL, hosts=("h9",)),))
CAUSE = blockers.Cause(operation="op-9", target="h9")

OWN = {"scopes": {"web"}, "vms": {"web_0"}}

SAID: list[tuple[AnyBlocker, str]] = [
    (
        blockers.NotApproved(tenant="shop", scope="web", listens=True),
        "tenant shop has not approved (scope web)",
    ),
    (
        blockers.NotApproved(tenant="bank", scope="db", listens=False),
        "another tenant has not approved",
    ),
    (blockers.NotDue(remaining=5 * MINUTE), "NotBefore is in 5 m"),
    (
        blockers.NoticeRuns(remaining=5 * MINUTE),
        "the clock was set forward during the notice, which ends in 5 m",
    ),
    (
        blockers.BatchWaits(tenant="bank", scope="db", target="db_0"),
        "another tenant has not approved",
    ),
    (
        blockers.FaultDomainDown(scope="web", fault_domain=1, causes=(CAUSE,)),
        "another fault domain of scope web is down",
    ),
    (
        blockers.FaultDomainDown(scope="db", fault_domain=1, causes=(CAUSE,)),
        "the platform holds it for now",
    ),
    (
        # The reason can name anything, and who put it on is an operator.
        blockers.BrakeOn(by="alice", reason="rack r7 of bank is on fire"),
        "the platform holds it for now",
    ),
    (
        blockers.WindowClosed(scope="web", opens=0),
        "the maintenance window of scope web opens at 1970-01-01T00:00:00Z",
    ),
    (
        blockers.WindowClosed(scope="db", opens=0),
        "the platform holds it for now",
    ),
    (
        blockers.CampaignStopped(
            campaign="bios", is_halted=False, by="alice", reason="rack r7 of bank"
        ),
        "the platform holds it for now",
    ),
    (
        blockers.StageWaits(campaign="bios", stage=2, left=3),
        "the platform holds it for now",
    ),
    (
        blockers.StageWaits(campaign="bios", stage=2, remaining=60_000_000),
        "the platform holds it for now",
    ),
    (
        blockers.StageWaits(campaign="bios", stage=2, needs_approval=True),
        "the platform holds it for now",
    ),
    (
        blockers.OutsideWindow(campaign="bios", opens=0),
        "the platform holds it for now",
    ),
    (
        blockers.InBlackout(blackout="year-end", ends=0, campaign="bios"),
        "the platform holds it for now",
    ),
    (
        blockers.InBlackout(blackout="freeze", ends=0),
        "the platform holds it for now",
    ),
    (
        blockers.CheckUnknown(campaign="bios", check="errors", said="no answer"),
        "the platform holds it for now",
    ),
    (
        blockers.DrainFailed(campaign="bios", drains=1, most=3, until=0),
        "the platform holds it for now",
    ),
    (
        blockers.BudgetUsed(
            campaign="bios", budget=BudgetKind.GROUP, used=1, most=1, subject="rack=r7"
        ),
        "the platform holds it for now",
    ),
    (
        blockers.ReserveKept(
            pool="p1", resource="vcpu", needed=8, free=10, reserve=4, setting="1"
        ),
        "the platform holds it for now",
    ),
    (
        blockers.Deferred(tenant="shop", scope="web", until=0),
        "tenant shop has deferred scope web until 1970-01-01T00:00:00Z",
    ),
    (
        blockers.Deferred(tenant="bank", scope="db", until=0),
        "the platform holds it for now",
    ),
    (
        blockers.NoCommonWindow(scopes=("db", "web")),
        "the platform holds it for now",
    ),
    (
        blockers.MigrationUnderWay(scope="db", operation="op-9"),
        "the platform holds it for now",
    ),
    (
        blockers.SharedHost(
            host="h1",
            scope="web",
            vms=(blockers.DomainMember(vm="web_0", fault_domain=0),),
        ),
        "the platform holds it for now",
    ),
    (
        blockers.VmBusy(vm="web_0", operation="op-1"),
        "VM web_0 is busy: operation op-1 is running on it",
    ),
    (
        blockers.VmBusy(vm="db_0", operation="op-9"),
        "the platform holds it for now",
    ),
    (blockers.VmDown(vm="db_0"), "the host is not available"),
    (
        blockers.NoCapacity(vm="web_0", why=FULL),
        "the platform has no capacity for VM web_0 now",
    ),
    (
        blockers.NoCapacity(vm="db_0", why=FULL),
        "the platform holds it for now",
    ),
    (
        blockers.DriverRetry(remaining=MINUTE, end=CallEnd(said="h9: no")),
        "the platform failed and will try again",
    ),
    (
        blockers.DriverAsked(generation=2),
        "the platform does not know the outcome yet",
    ),
    (
        blockers.OutcomeUnknown(operation="op-1", end=CallEnd(said="h9: what?")),
        "the platform does not know the outcome yet",
    ),
    (
        blockers.StillDown(target_kind="host", target="h9"),
        "the host is not available",
    ),
    *(
        (waits, "the platform holds it for now")
        for waits in (
            blockers.NotItsTurn(
                request="ro-9", position=2, hosts=9, in_flight=1, at_once=1
            ),
            blockers.ScopeInUse(scope="web", fault_domain=1),
            blockers.ScopeReserved(scope="web", operation="op-9"),
            blockers.HostInUse(host="h9"),
            blockers.RelaySilent(host="h9"),
            blockers.DriverUnable(
                host="h9", vm="web_0", action=Action.LIVE_MIGRATE, said="disk on h9"
            ),
        )
    ),
]


SAID.append((blockers.More(of="vm busy", count=3), "the platform holds it for now"))


@pytest.mark.parametrize(("blocker", "sentence"), SAID)
def test_reason_for_a_tenant_omits_other_tenants(
    blocker: AnyBlocker, sentence: str
) -> None:
    (told,) = for_tenant([blocker], **OWN)
    assert reason(told) == sentence


def test_redaction_covers_every_blocker_kind() -> None:
    said = {blocker.kind for blocker, _ in SAID} - {blockers.More.kind}
    assert said == set(blockers.BLOCKER_KINDS)


def test_redacting_twice_changes_nothing() -> None:
    once = for_tenant([blocker for blocker, _ in SAID], **OWN)
    assert for_tenant(once, **OWN) == once


def test_number_of_other_tenants_is_not_reported() -> None:
    several = [
        blockers.NotApproved(tenant=name, scope=f"db-{name}", listens=True)
        for name in ("a", "b", "c")
    ]
    assert len(for_tenant(several, **OWN)) == 1


def test_actors_of_others_are_redacted_and_own_ones_lose_token_and_peer() -> None:
    def told(actor: Actor) -> Actor:
        return actor_for(actor, "shop", had_vm=lambda vm: vm == "web_0")

    own = tenant_user("shop", "ci")
    for actor, expected in [
        (replace(own, token="tk-1", peer="192.0.2.1"), own),
        (tenant_user("bank", "ci"), PLATFORM),
        (operator("shop/ci"), PLATFORM),
        (replace(vm_actor("web_0"), token="tk-9"), vm_actor("web_0")),
        (vm_actor("db_0"), PLATFORM),
        (VMS, VMS),
        (CLOCK, CLOCK),
        (DRIVER, DRIVER),
        (POLICY, POLICY),
        (service_part("fleet file"), PLATFORM),
    ]:
        assert told(actor) == expected
