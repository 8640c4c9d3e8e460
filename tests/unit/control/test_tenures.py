"""Whose a scope was, at each instant, from the lines that end a tenant's time."""

from dataclasses import replace

import pytest

from forewarn.control.redaction import ownership_history
from forewarn.control.redaction.ownership_history import Past
from forewarn.control.requests import fleet_changes
from forewarn.control.transactions.work import Who
from forewarn.fleet.file import read_fleet
from forewarn.fleet.model import Scope, ScopeKind, Tenant
from forewarn.instants import Micros
from forewarn.protocol.actors import operator
from tests.unit.admin.gateway import FLEET, START, LocalGateway

BANKS = 'name = "db"\ntenant = "bank"'
SHOPS = 'name = "db"\ntenant = "shop"'
GONE = FLEET[: FLEET.index("[[scope]]")]

SCOPE = Scope(name="db", tenant="bank", kind=ScopeKind.SCALE_SET)


def apply(gateway: LocalGateway, text: str) -> Micros:
    """Apply a fleet file a minute from now; return when that was."""
    gateway.advance("1m")
    at = gateway.now()
    wanted = read_fleet(text, name="fleet.toml")
    gateway.plane.order(
        Who(actor=operator("test")),
        lambda work: fleet_changes.apply(work, wanted),
        now=at,
    )
    gateway.advance("1m")
    return at


def whose(gateway: LocalGateway, at: Micros, scope: str = "db") -> list[str]:
    """Return who had the scope then, as each tenant's past says."""
    return [
        tenant
        for tenant in ("shop", "bank")
        if gateway.store.read(
            lambda reader, who=tenant: Past(reader, who).had_scope_at(scope, at)
        )
    ]


def had_vm_at(gateway: LocalGateway, tenant: str, vm: str, at: Micros) -> bool:
    return gateway.store.read(lambda reader: Past(reader, tenant).had_vm_at(vm, at))


def scopes(gateway: LocalGateway, tenant: str) -> set[str]:
    return set(gateway.store.read(lambda reader: Past(reader, tenant).scopes))


@pytest.mark.parametrize(
    ("before", "after", "ended"),
    [
        (SCOPE, replace(SCOPE, tenant="shop"), True),
        (SCOPE, None, True),
        (SCOPE, replace(SCOPE, kind=ScopeKind.AVAILABILITY_SET), False),
        (None, SCOPE, False),
        (Tenant(name="bank"), None, False),
    ],
)
def test_tenant_change_or_deletion_ends_an_ownership(
    before: object, after: object, *, ended: bool
) -> None:
    expected = ("ownership-of:db", "ownership-by:bank") if ended else ()
    assert ownership_history.ending(before, after) == expected


def test_owner_of_a_scope_is_known_at_each_instant() -> None:
    gateway = LocalGateway()
    to_shop = apply(gateway, FLEET.replace(BANKS, SHOPS))
    back = apply(gateway, FLEET)
    again = apply(gateway, FLEET.replace(BANKS, SHOPS))
    for at, tenant in [
        (START, "bank"),
        (to_shop - 1, "bank"),
        (to_shop, "shop"),
        (back - 1, "shop"),
        (back, "bank"),
        (again - 1, "bank"),
        (again, "shop"),
        (gateway.now(), "shop"),
    ]:
        assert whose(gateway, at) == [tenant], at - START
    assert whose(gateway, START, "web") == ["shop"]


def test_only_former_scopes_of_a_tenant_are_listed() -> None:
    gateway = LocalGateway()
    assert scopes(gateway, "bank") == scopes(gateway, "shop") == set()
    apply(gateway, FLEET.replace(BANKS, SHOPS))
    assert scopes(gateway, "bank") == {"db"}
    assert scopes(gateway, "shop") == set()


def test_deleted_scope_keeps_its_former_owner() -> None:
    gateway = LocalGateway()
    gone = apply(gateway, GONE)
    assert whose(gateway, gone - 1) == ["bank"]
    assert whose(gateway, gone) == []
    assert whose(gateway, gone - 1, "web") == ["shop"]
    # A new one of the same name has no past of its new owner's.
    apply(gateway, FLEET.replace(BANKS, SHOPS))
    assert whose(gateway, gone - 1) == ["bank"]
    assert whose(gateway, gateway.now()) == ["shop"]


def test_vms_change_owner_with_their_scope() -> None:
    gateway = LocalGateway()
    to_shop = apply(gateway, FLEET.replace(BANKS, SHOPS))
    assert had_vm_at(gateway, "bank", "db_0", to_shop - 1)
    assert not had_vm_at(gateway, "bank", "db_0", to_shop + 1)
    assert had_vm_at(gateway, "shop", "db_0", to_shop + 1)
    assert not had_vm_at(gateway, "shop", "db_0", to_shop - 1)
    for tenant in ("bank", "shop"):
        assert gateway.store.read(
            lambda reader, who=tenant: Past(reader, who).had_vm("db_0")
        )
    assert not had_vm_at(gateway, "bank", "nobody", START)
