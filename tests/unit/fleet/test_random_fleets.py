"""Test that exporting, reading and merging agree for any fleet."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.fleet import validators, views
from forewarn.fleet.checks import check_fleet
from forewarn.fleet.errors import Kind
from forewarn.fleet.export import export_fleet, export_tables
from forewarn.fleet.fields import FIELDS, derived_vm_id, said, toml_value, wish_of
from forewarn.fleet.file import read_fleet
from forewarn.fleet.merge import Action, MergePlan, plan
from forewarn.fleet.model import Host, Scope, ScopeKind, Tenant, Vm, VmState
from forewarn.instants import MINUTE, SECOND

pytestmark = pytest.mark.slow


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """A sound fleet, by name."""

    tenants: dict[str, Tenant]
    scopes: dict[str, Scope]
    hosts: dict[str, Host]
    vms: dict[str, Vm]

    def parts(
        self,
    ) -> tuple[Iterable[Tenant], Iterable[Scope], Iterable[Host], Iterable[Vm]]:
        return (
            self.tenants.values(),
            self.scopes.values(),
            self.hosts.values(),
            self.vms.values(),
        )

    def text(self) -> str:
        return export_fleet(*self.parts())

    def plan(self, text: str) -> MergePlan:
        tenants, scopes, hosts, vms = self.parts()
        return plan(
            read_fleet(text, name="f"),
            tenants=tenants,
            scopes=scopes,
            hosts=hosts,
            vms=vms,
        )

    def after(self, text: str) -> "Fleet":
        tables: dict[Kind, dict[str, Any]] = {
            Kind.TENANT: dict(self.tenants),
            Kind.SCOPE: dict(self.scopes),
            Kind.HOST: dict(self.hosts),
            Kind.VM: dict(self.vms),
        }
        for change in self.plan(text).writes():
            if change.after is None:
                del tables[change.kind][change.name]
            else:
                tables[change.kind][change.name] = change.after
        return Fleet(
            tenants=tables[Kind.TENANT],
            scopes=tables[Kind.SCOPE],
            hosts=tables[Kind.HOST],
            vms=tables[Kind.VM],
        )


EMPTY = Fleet(tenants={}, scopes={}, hosts={}, vms={})

# Few names, so that two fleets have some in common; and any, for the quoting.
NAMES = st.one_of(
    st.sampled_from(["a", "b", "c", "d", "web_0", "default"]),
    st.text(min_size=1, max_size=12).filter(
        lambda name: not validators.name_fault(name)
    ),
)
TEXTS = st.one_of(
    st.just(""), st.text(max_size=12).filter(lambda text: text.isprintable())
)
ZONES = st.sampled_from(["", "1", "2"])
LABELS = st.sampled_from(["model", "os.kernel", "größe"])


def names(most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(NAMES, unique=True, max_size=most)


@st.composite
def scopes_of(draw: st.DrawFn, name: str, tenants: list[str]) -> Scope:
    kind = draw(st.sampled_from(ScopeKind))
    in_set = kind in {ScopeKind.SCALE_SET, ScopeKind.AVAILABILITY_SET}
    notices = st.none() | st.integers(5 * MINUTE, 15 * MINUTE)
    return Scope(
        name=name,
        tenant=draw(st.sampled_from(tenants)),
        kind=kind,
        approve_user_reboot=draw(st.booleans()),
        approve_user_redeploy=draw(st.booleans()),
        terminate_notice=draw(notices),
        os_image_notice=draw(st.none() | st.integers(SECOND, 15 * MINUTE)),
        scale_set=draw(TEXTS) if in_set else "",
        gpu=kind is ScopeKind.SCALE_SET and draw(st.booleans()),
    )


@st.composite
def vms_of(
    draw: st.DrawFn, name: str, number: int, host: str, scope: str, domain: int
) -> Vm:
    guid = "01234567-89ab-8cde-8f01-{:012x}".format
    tags = draw(st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=2))
    addresses = (f"192.0.2.{number}", f"2001:db8::{number + 1:x}")
    return Vm(
        name=name,
        wire_name=name if draw(st.booleans()) else f"wire@{number}".replace("@", "-"),
        host=host,
        scope=scope,
        tenant="",
        view="",
        fault_domain=domain,
        update_domain=draw(st.integers(0, 20)),
        size=draw(TEXTS),
        vcpu=draw(st.none() | st.integers(1, 8)),
        memory=draw(st.none() | st.integers(1, 8 << 10)),
        movable=draw(st.booleans()),
        memory_preserving=draw(st.booleans()),
        spot=draw(st.booleans()),
        vm_id=guid(number) if draw(st.booleans()) else derived_vm_id(name),
        tags=tuple(sorted(tags.items())),
        resource_group=draw(TEXTS),
        subscription=draw(TEXTS),
        location=draw(TEXTS),
        addresses=addresses[: draw(st.integers(0, 2))],
        listen=draw(st.sampled_from(["", f"127.0.0.1:{number + 1}"])),
    )


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Draw a sound fleet, its records as if no file had made them."""
    tenants = draw(names(3)) or ["default"]
    hosts = {
        name: Host(
            name=name,
            zone=draw(ZONES),
            cluster=draw(ZONES),
            rack=draw(ZONES),
            pool=draw(ZONES),
            capacity=draw(st.none() | st.integers(50, 90)),
            vcpu=draw(st.none() | st.integers(50, 90)),
            memory=draw(st.none() | st.sampled_from([48 << 10, 50_000, 1 << 20])),
            labels=tuple(
                sorted(draw(st.dictionaries(LABELS, TEXTS, max_size=2)).items())
            ),
            last=draw(st.booleans()),
        )
        for name in draw(names(4))
    }
    scopes = {name: draw(scopes_of(name, tenants)) for name in draw(names(3))}
    full: set[str] = set()
    vms: list[Vm] = []
    for number, name in enumerate(draw(names(6)) if hosts else []):
        host = draw(st.sampled_from(sorted(hosts)))
        free = sorted(scopes.keys() - full)
        chosen = draw(st.sampled_from(["", *free]))
        if not chosen:
            chosen = name
            if name in scopes:
                continue
            scopes[name] = Scope(
                name=name,
                tenant=draw(st.sampled_from(tenants)),
                kind=ScopeKind.STANDALONE,
                implied=True,
            )
        if scopes[chosen].kind is ScopeKind.STANDALONE:
            full.add(chosen)
        # One fault domain for each host, as clause 6.3 wants it.
        domain = sorted(hosts).index(host) % 3
        vms.append(draw(vms_of(name, number, host, chosen, domain)))
    if not scopes and tenants == ["default"]:
        tenants = []
    return Fleet(
        tenants={name: Tenant(name=name) for name in tenants},
        scopes=scopes,
        hosts=hosts,
        vms=views.settle(vms, scopes=scopes, hosts=hosts),
    )


def wanted(fleet: Fleet) -> Fleet:
    """Return the fleet as a file that says just that would make it."""

    def applied(kind: Kind, records: dict[str, Any]) -> dict[str, Any]:
        attributes = [field.attribute for field in FIELDS[kind]]
        return {
            name: replace(
                record,
                applied=wish_of(
                    kind,
                    name,
                    {attribute: getattr(record, attribute) for attribute in attributes},
                ),
            )
            for name, record in records.items()
        }

    return Fleet(
        tenants=applied(Kind.TENANT, fleet.tenants),
        scopes=applied(Kind.SCOPE, fleet.scopes),
        hosts=applied(Kind.HOST, fleet.hosts),
        vms=applied(Kind.VM, fleet.vms),
    )


@given(fleets())
def test_exported_fleet_reads_back_equal(fleet: Fleet) -> None:
    text = fleet.text()
    read = read_fleet(text, name="f")
    assert Fleet(
        tenants=dict(read.tenants),
        scopes=dict(read.scopes),
        hosts=dict(read.hosts),
        vms=dict(read.vms),
    ) == wanted(fleet)
    assert "".join(export_tables(*wanted(fleet).parts())).count("\n") == text.count(
        "\n"
    )


@given(fleets())
def test_each_exported_setting_is_found_at_its_line(fleet: Fleet) -> None:
    text = fleet.text()
    lines = text.splitlines()
    place = read_fleet(text, name="f").place
    for vm in fleet.vms.values():
        for field, value in said(Kind.VM, vm):
            if field.key == "scope" and fleet.scopes[vm.scope].implied:
                continue
            line = place(Kind.VM, vm.name, field.key).line
            assert lines[line - 1] == f"{field.key} = {toml_value(field.option, value)}"


@given(fleets())
def test_second_apply_changes_nothing(fleet: Fleet) -> None:
    text = fleet.text()
    once = EMPTY.after(text)
    assert once == wanted(fleet)
    assert once.plan(text).changes == ()


@given(fleets(), fleets())
def test_file_values_apply_if_there_are_no_other_changes(
    one: Fleet, other: Fleet
) -> None:
    after = EMPTY.after(one.text()).after(other.text())
    assert after == wanted(other)
    assert after.plan(other.text()).changes == ()


@given(fleets(), st.data())
def test_a_migrated_vm_stays_until_it_is_exported(
    fleet: Fleet, data: st.DataObject
) -> None:
    text = fleet.text()
    applied = EMPTY.after(text)
    moved = {
        vm.name: replace(
            vm, host=data.draw(st.sampled_from(sorted(applied.hosts))), revision=3
        )
        for vm in applied.vms.values()
    }
    vms = views.settle(moved.values(), scopes=applied.scopes, hosts=applied.hosts)
    actual = replace(applied, vms=vms)
    if check_fleet(*actual.parts()):
        return
    planned = actual.plan(text)
    assert planned.is_empty
    assert actual.after(text) == actual
    noted = {change.name for change in planned.changes}
    assert noted == {
        vm.name for vm in vms.values() if vm.host != fleet.vms[vm.name].host
    }
    agreed = actual.plan(actual.text())
    assert agreed.is_empty
    assert list(agreed.lines()) == []
    assert {change.action for change in agreed.changes} <= {Action.ADOPT}


@given(fleets(), st.data())
def test_deleted_vms_stay_deleted(fleet: Fleet, data: st.DataObject) -> None:
    text = fleet.text()
    applied = EMPTY.after(text)
    gone = data.draw(st.sets(st.sampled_from(["", *sorted(applied.vms)])))
    actual = replace(
        applied,
        vms={
            name: replace(vm, state=VmState.DELETED) if name in gone else vm
            for name, vm in applied.vms.items()
        },
    )
    assert actual.plan(text).is_empty
    assert actual.after(text) == actual
    exported = actual.after(actual.text())
    assert exported.vms.keys() == applied.vms.keys() - gone
