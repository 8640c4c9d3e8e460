"""What a tenant is told of why its operation waits."""

import pytest

from forewarn.control import blockers
from forewarn.control.blockers import Blocker
from forewarn.control.neutral import for_tenant
from forewarn.instants import MINUTE

OWN = {"scopes": {"web"}, "vms": {"web_0"}}

SAID: list[tuple[Blocker, str]] = [
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
        blockers.BatchWaits(tenant="bank", scope="db", target="db_0"),
        "another tenant has not approved",
    ),
    (
        blockers.FaultDomainDown(scope="web", fault_domain=1, because=("host h9",)),
        "another fault domain of scope web is down",
    ),
    (
        blockers.FaultDomainDown(scope="db", fault_domain=1, because=("host h9",)),
        "the platform holds it back for now",
    ),
    (
        blockers.MigrationUnderWay(scope="db", operation="op-9"),
        "the platform holds it back for now",
    ),
    (
        blockers.VmBusy(vm="web_0", operation="op-1"),
        "vm web_0 is in the hands of operation op-1",
    ),
    (
        blockers.VmBusy(vm="db_0", operation="op-9"),
        "the platform holds it back for now",
    ),
    (blockers.VmDown(vm="db_0"), "what it runs on is down"),
    (
        blockers.NoRoom(vm="web_0", why="h9 is full"),
        "the platform has no place for vm web_0 at present",
    ),
    (
        blockers.NoRoom(vm="db_0", why="h9 is full"),
        "the platform holds it back for now",
    ),
    (
        blockers.DriverRetry(remaining=MINUTE, note="h9: no"),
        "the platform did not succeed and tries again",
    ),
    (
        blockers.OutcomeUnknown(operation="op-1", note="h9: what?"),
        "the platform does not know yet whether it was done",
    ),
    (
        blockers.StillDown(target_kind="host", target="h9"),
        "what it runs on is down",
    ),
]


@pytest.mark.parametrize(("blocker", "sentence"), SAID)
def test_a_reason_is_told_without_others(blocker: Blocker, sentence: str) -> None:
    (told,) = for_tenant([blocker], **OWN)
    assert told.sentence() == sentence


def test_every_kind_of_reason_has_been_thought_of() -> None:
    assert {blocker.kind for blocker, _ in SAID} == set(blockers.BLOCKER_KINDS)


def test_how_many_others_there_are_is_not_told() -> None:
    several = [
        blockers.NotApproved(tenant=name, scope=f"db-{name}", listens=True)
        for name in ("a", "b", "c")
    ]
    assert len(for_tenant(several, **OWN)) == 1
