"""What held an operation stands in the trail: when it changes, to whom it concerns."""

from collections.abc import Callable
from typing import Any

import pytest

from forewarn.control.execution import release
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests import failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules import (
    brake,
    destinations,
    guard,
    holds,
    obstacles,
    relay_links,
    told,
)
from forewarn.control.transactions.work import Who, Work
from forewarn.protocol import blockers
from forewarn.protocol.actors import operator
from forewarn.protocol.blockers import AnyBlocker, Blocker, FaultDomainDown
from forewarn.protocol.operations import Action, Operation, OperationState, Verb
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.questions import Query, Ranking
from forewarn.store.records import AuditEntry, AuditKind
from forewarn.wording.operators import detail_of, reason
from tests.unit.admin.gateway import FLEET, LocalGateway

SHARED = FLEET.replace(
    'name = "db"\ntenant = "bank"\nkind = "scale-set"',
    'name = "db"\ntenant = "bank"\nkind = "availability-set"',
).replace(
    'name = "db_1"\nhost = "h2"\nscope = "db"',
    'name = "db_1"\nhost = "h2"\nscope = "db"\nfault_domain = 1',
)
"""web_0 and db_0 are on h1 in fault domain 0, web_1 and db_1 on h2 in the other."""

WEB = "scope web has fault domain 0 down because vm web_0 failed (down until `forewarn restore web_0`)"
DB = "scope db has fault domain 0 down because vm db_0 failed (down until `forewarn restore db_0`)"
SHOP = "another fault domain of scope web is down"
HOST = "scope {} has fault domain 0 down because host h1 failed (down until `forewarn restore h1`)"
BANK = "another fault domain of scope db is down"
PLATFORM = "the platform holds it for now"


def gateway_of_both() -> LocalGateway:
    """Return a gateway whose operator has ordered a restart of h2, which both share."""
    gateway = LocalGateway(SHARED)
    order(
        gateway,
        lambda work: verbs.maintain(work, ["h2"], Action.REBOOT, OrderOptions()),
    )
    return gateway


def order(gateway: LocalGateway, decide: Callable[[Work], object]) -> None:
    gateway.plane.order(Who(actor=operator("test")), decide, now=gateway.now())
    gateway.advance("1s")


def fail(gateway: LocalGateway, vm: str) -> None:
    order(gateway, lambda work: failures.fail_vm(work, vm))


def restore(gateway: LocalGateway, vm: str) -> None:
    order(gateway, lambda work: failures.restore_vm(work, vm))


def held(gateway: LocalGateway, tenant: str = "") -> list[str]:
    """Return what the history tells of what held operations; no tenant: all of it."""

    def ask(reader: Reader) -> list[str]:
        seen = TenantReader(reader, tenant) if tenant else reader
        return [
            detail_of(line)
            for line in every(seen, kinds.ALL_AUDIT)
            if line.kind is AuditKind.OPERATION_HELD
        ]

    return gateway.store.read(ask)


def state(gateway: LocalGateway) -> OperationState:
    """Return how far the restart of h2 has come."""
    return operation(gateway).state


def now_held_by(gateway: LocalGateway) -> tuple[AnyBlocker, ...]:
    """Return what `explain` says of the restart of h2."""
    return gateway.store.read(
        lambda reader: obstacles.why_waiting(
            reader, operation(gateway), now=gateway.now()
        )
    )


@pytest.mark.parametrize(
    ("failing", "whole", "shop", "bank"),
    [
        ("web_0", WEB, SHOP, PLATFORM),
        ("db_0", DB, PLATFORM, BANK),
    ],
)
def test_tenant_history_names_only_its_own_fault_domains(
    failing: str, whole: str, shop: str, bank: str
) -> None:
    gateway = gateway_of_both()
    fail(gateway, failing)
    gateway.advance("16m")
    assert state(gateway) is OperationState.READY
    assert held(gateway) == [whole]
    assert held(gateway, "shop") == [shop]
    assert held(gateway, "bank") == [bank]
    # It is looked at each minute, and nothing is said twice.
    gateway.advance("10m")
    assert held(gateway) == [whole]


def test_later_reason_is_recorded_when_it_occurs() -> None:
    gateway = gateway_of_both()
    fail(gateway, "web_0")
    gateway.advance("16m")
    fail(gateway, "db_0")
    # It waits for web: what happens in db is noted when it is looked at again.
    gateway.advance("2m")
    assert held(gateway) == [WEB, f"{DB}; {WEB}"]
    assert held(gateway, "shop") == [SHOP, f"{SHOP}; {PLATFORM}"]
    assert held(gateway, "bank") == [PLATFORM, f"{BANK}; {PLATFORM}"]


def test_cleared_reason_is_no_longer_reported() -> None:
    gateway = gateway_of_both()
    fail(gateway, "web_0")
    fail(gateway, "db_0")
    gateway.advance("16m")
    restore(gateway, "db_0")
    assert held(gateway) == [f"{DB}; {WEB}", WEB]
    assert held(gateway, "shop") == [f"{SHOP}; {PLATFORM}", SHOP]
    assert held(gateway, "bank") == [f"{BANK}; {PLATFORM}", PLATFORM]
    restore(gateway, "web_0")
    assert state(gateway) is not OperationState.READY
    assert len(held(gateway)) == 2


def test_hidden_change_of_cause_adds_no_history_entry() -> None:
    def fail_both_alone(work: Work) -> None:
        failures.restore_host(work, "h1")
        failures.fail_vm(work, "web_0")
        failures.fail_vm(work, "db_0")

    gateway = gateway_of_both()
    order(gateway, lambda work: failures.fail_host(work, "h1"))
    gateway.advance("16m")
    assert HOST.format("web") in [reason(blocker) for blocker in now_held_by(gateway)]
    order(gateway, fail_both_alone)
    assert {WEB, DB} <= {reason(blocker) for blocker in now_held_by(gateway)}
    assert len(held(gateway)) == 1
    assert held(gateway, "shop") == [f"{SHOP}; {PLATFORM}"]
    assert held(gateway, "bank") == [f"{BANK}; {PLATFORM}"]


def test_further_failures_of_another_tenant_add_no_history_entry() -> None:
    third = SHARED + (
        '\n[[vm]]\nname = "db_2"\nhost = "h3"\nscope = "db"\nfault_domain = 2\n'
        '\n[[host]]\nname = "h3"\n'
    )
    gateway = LocalGateway(third)
    order(
        gateway,
        lambda work: verbs.maintain(work, ["h2"], Action.REBOOT, OrderOptions()),
    )
    fail(gateway, "db_0")
    gateway.advance("16m")
    before = whole_history(gateway, "shop")
    fail(gateway, "db_2")
    assert len(held(gateway)) == 1
    assert whole_history(gateway, "shop") == before
    restore(gateway, "db_2")
    assert len(held(gateway)) == 1
    assert whole_history(gateway, "shop") == before
    assert held(gateway, "bank") == [BANK]


def whole_history(gateway: LocalGateway, tenant: str) -> list[AuditEntry]:
    """Return a tenant's whole history; no tenant: an operator's."""
    return gateway.store.read(
        lambda reader: list(
            every(TenantReader(reader, tenant) if tenant else reader, kinds.ALL_AUDIT)
        )
    )


# Values: what is stored is what the guard found


def operation(gateway: LocalGateway) -> Operation:
    """Return the restart of h2."""
    [found] = gateway.store.read(
        lambda reader: [
            record
            for record in reader.select(kinds.ALL_OPERATIONS)
            if record.verb is Verb.MAINTAIN
        ]
    )
    return found


def test_operation_keeps_its_blockers_only_while_it_is_held() -> None:
    gateway = gateway_of_both()
    fail(gateway, "web_0")
    assert operation(gateway).held_by == ()
    gateway.advance("16m")
    [blocker] = operation(gateway).held_by
    assert isinstance(blocker, FaultDomainDown)
    assert [cause.target for cause in blocker.causes] == ["web_0"]
    [entry] = [
        line
        for line in whole_history(gateway, "")
        if line.kind is AuditKind.OPERATION_HELD
    ]
    assert entry.facts.blockers == (blocker,)
    restore(gateway, "web_0")
    assert state(gateway) is not OperationState.READY
    assert operation(gateway).held_by == ()


def test_recording_blockers_reads_no_history() -> None:
    gateway = gateway_of_both()
    fail(gateway, "web_0")
    gateway.advance("16m")
    asked: list[str] = []

    def look(work: Work) -> None:
        select, ranked = work.tx.select, work.tx.ranked

        def counted(query: Query[Any], *args: Any, **more: Any) -> list[Any]:
            asked.append(query.name)
            return select(query, *args, **more)

        def ranks(ranking: Ranking[Any], *args: Any, **more: Any) -> list[Any]:
            asked.append(ranking.name)
            return ranked(ranking, *args, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(work.tx, "select", counted)
            patch.setattr(work.tx, "ranked", ranks)
            release.recheck(work, operation(gateway).operation_id)

    fail(gateway, "db_0")
    order(gateway, look)
    assert "unsteady_domains" in asked
    assert not [name for name in asked if "audit" in name]


def test_start_decision_uses_only_guard_blocker_kinds() -> None:
    made = {
        member
        for module in (guard, destinations, brake, holds, told, relay_links)
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, Blocker)
    }
    deciding = (obstacles.why_not_start, obstacles._busy)
    names = {name for decides in deciding for name in decides.__code__.co_names}
    made |= {member for name, member in vars(obstacles).items() if name in names} & {
        member
        for member in vars(blockers).values()
        if isinstance(member, type) and issubclass(member, Blocker)
    }
    made |= {blockers.CampaignStopped, blockers.OutsideWindow, blockers.InBlackout}
    assert {blocker.kind for blocker in made} | {"more"} == blockers.GUARD_KINDS
