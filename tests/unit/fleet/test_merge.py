"""Applying a fleet file: who has spoken, and who is kept to."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from forewarn.fleet.errors import FleetFileError, Kind
from forewarn.fleet.file import WantedFleet, read_fleet
from forewarn.fleet.merge import Action, Change, MergePlan, plan
from forewarn.fleet.model import Host, HostState, Scope, ScopeKind, Tenant, Vm, VmState

BASE = """\
[[tenant]]
name = "shop"
[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"
[[host]]
name = "h1"
[[host]]
name = "h2"
[[vm]]
name = "web_0"
host = "h1"
scope = "web"
"""


@dataclass
class World:
    """The actual fleet, which plans change."""

    records: dict[Kind, dict[str, Any]] = field(
        default_factory=lambda: {kind: {} for kind in Kind}
    )

    def plan(self, text: str) -> MergePlan:
        return self.plan_for(read_fleet(text, name="fleet.toml"))

    def plan_for(self, wanted: WantedFleet) -> MergePlan:
        return plan(
            wanted,
            tenants=self.records[Kind.TENANT].values(),
            scopes=self.records[Kind.SCOPE].values(),
            hosts=self.records[Kind.HOST].values(),
            vms=self.records[Kind.VM].values(),
        )

    def carry_out(self, changes: Iterable[Change]) -> None:
        for change in changes:
            table = self.records[change.kind]
            assert table.get(change.name) == change.before
            if change.after is None:
                del table[change.name]
            else:
                table[change.name] = change.after

    def apply(self, text: str) -> list[str]:
        planned = self.plan(text)
        self.carry_out(planned.writes())
        return list(planned.lines())

    def change_vm(self, name: str, **values: Any) -> None:
        vms = self.records[Kind.VM]
        vms[name] = replace(vms[name], **values)

    def vm(self, name: str) -> Vm:
        vm: Vm = self.records[Kind.VM][name]
        return vm


@pytest.fixture
def world() -> World:
    world = World()
    world.apply(BASE)
    return world


def test_first_file_creates_everything() -> None:
    assert World().apply(BASE + '[[vm]]\nname = "solo"\nhost = "h2"\n') == [
        "+ tenant shop",
        "+ scope web (availability-set of shop)",
        "+ host h1",
        "+ host h2",
        "+ vm web_0 on h1 (scope web)",
        "+ vm solo on h2 (its own scope)",
    ]


def test_the_same_file_changes_nothing(world: World) -> None:
    planned = world.plan(BASE)
    assert planned.changes == ()
    assert planned.is_empty


def test_empty_file_removes_objects_created_by_files(world: World) -> None:
    assert world.apply("") == [
        "- vm web_0",
        "- host h1",
        "- host h2",
        "- scope web",
        "- tenant shop",
    ]


def test_object_not_created_by_a_file_is_kept(world: World) -> None:
    world.records[Kind.HOST]["spare"] = Host(name="spare")
    assert world.apply(BASE) == []
    assert "spare" in world.records[Kind.HOST]


def test_existing_object_is_adopted_without_a_change(world: World) -> None:
    world.records[Kind.HOST]["spare"] = Host(name="spare", capacity=3, revision=7)
    text = BASE + '[[host]]\nname = "spare"\n'
    planned = world.plan(text)
    assert [change.action for change in planned.changes] == [Action.ADOPT, Action.NOTE]
    assert planned.is_empty
    assert list(planned.lines()) == [
        "host spare keeps capacity 3 (the file says none)",
    ]
    world.carry_out(planned.writes())
    assert world.records[Kind.HOST]["spare"] == Host(
        name="spare", capacity=3, applied="{}", revision=7
    )


def test_a_migrated_vm_stays_where_it_is(world: World) -> None:
    world.change_vm("web_0", host="h2", revision=4)
    planned = world.plan(BASE)
    assert planned.is_empty
    assert list(planned.writes()) == []
    assert list(planned.lines()) == [
        "vm web_0 stays on h2, where a migration moved it (the file says h1)"
    ]


def test_file_can_move_a_migrated_vm(world: World) -> None:
    world.change_vm("web_0", host="h2", revision=4)
    text = BASE.replace('host = "h1"\nscope', 'host = "h3"\nscope')
    text += '[[host]]\nname = "h3"\n'
    assert world.apply(text) == ["+ host h3", "~ vm web_0: host h2 → h3"]
    assert (world.vm("web_0").host, world.vm("web_0").revision) == ("h3", 4)


def test_file_can_adopt_a_migration(world: World) -> None:
    world.change_vm("web_0", host="h2")
    text = BASE.replace('host = "h1"\nscope', 'host = "h2"\nscope')
    planned = world.plan(text)
    assert [change.action for change in planned.changes] == [Action.ADOPT]
    assert list(planned.lines()) == []
    assert planned.is_empty
    world.carry_out(planned.writes())
    assert world.plan(text).changes == ()


def test_another_change_does_not_move_a_migrated_vm(world: World) -> None:
    world.change_vm("web_0", host="h2")
    assert world.apply(BASE + 'size = "big"\ntags = { a = "1", b = "2" }\n') == [
        "~ vm web_0: size none → big, tags none → a=1, b=2",
        "vm web_0 stays on h2, where a migration moved it (the file says h1)",
    ]
    assert world.vm("web_0").host == "h2"


def test_changes_of_every_value_type_are_shown(world: World) -> None:
    text = BASE.replace(
        "[[host]]\n",
        'kind = "scale-set"\nterminate_notice = "PT10M"\ngpu = true\n[[host]]\n'
        "capacity = 3\n",
        1,
    ).replace('kind = "availability-set"\n', "")
    text += (
        'id = "01234567-89ab-8cde-8f01-23456789abcd"\n'
        'address = ["192.0.2.1", "192.0.2.2"]\n'
    )
    old = world.vm("web_0").vm_id
    assert world.apply(text) == [
        (
            "~ scope web: kind availability-set → scale-set,"
            " terminate_notice none → 10m, gpu false → true"
        ),
        "~ host h1: capacity none → 3",
        (
            f"~ vm web_0: id {old} → 01234567-89ab-8cde-8f01-23456789abcd,"
            " address none → 192.0.2.1, 192.0.2.2, view web → web/web_0"
        ),
    ]


def test_apply_keeps_the_runtime_state(world: World) -> None:
    world.change_vm("web_0", state=VmState.DOWN, started=("op-1",), moving_to="h2")
    hosts = world.records[Kind.HOST]
    hosts["h1"] = replace(hosts["h1"], state=HostState.DOWN)
    assert world.plan(BASE).changes == ()
    world.apply(BASE + "spot = true\n")
    vm = world.vm("web_0")
    assert (vm.state, vm.started, vm.moving_to) == (VmState.DOWN, ("op-1",), "h2")


def test_a_deleted_vm_leaves_a_tombstone(world: World) -> None:
    world.change_vm("web_0", state=VmState.DELETED, host="h2", revision=9)
    note = ["vm web_0 was deleted by a request; remove it from the file"]
    assert world.apply(BASE) == note
    moved = BASE.replace('host = "h1"\nscope', 'host = "h3"\nscope')
    moved = moved.replace('name = "h2"', 'name = "h3"')
    # The host on which it was is dropped: a tombstone needs none.
    assert world.apply(moved) == ["+ host h3", "- host h2", *note]
    assert (world.vm("web_0").state, world.vm("web_0").revision) == (
        VmState.DELETED,
        9,
    )
    assert world.plan(moved).is_empty
    assert world.apply(moved.split("[[vm]]", maxsplit=1)[0]) == ["- vm web_0"]


def test_deleted_vm_uses_no_capacity(world: World) -> None:
    world.change_vm("web_0", state=VmState.DELETED)
    text = BASE.replace('name = "h1"', 'name = "h1"\ncapacity = 1')
    text = text.replace("web_0", "web_1") + 'wire_name = "web_0"\n'
    assert world.apply(text) == [
        "~ host h1: capacity none → 1",
        "+ vm web_1 on h1 (scope web)",
        "- vm web_0",
    ]


def test_vm_can_change_its_scope(world: World) -> None:
    alone = BASE.replace('scope = "web"\n', "")
    assert world.apply(alone) == ["~ vm web_0: scope web → web_0, view web → web_0"]
    assert world.records[Kind.SCOPE]["web_0"].implied
    assert world.apply(BASE) == ["~ vm web_0: scope web_0 → web, view web_0 → web"]
    assert list(world.records[Kind.SCOPE]) == ["web"]


def test_implied_scope_can_become_a_named_one(world: World) -> None:
    world.apply(BASE.replace('scope = "web"\n', ""))
    text = BASE.replace('name = "web"', 'name = "web_0"').replace(
        'scope = "web"', 'scope = "web_0"'
    )
    assert world.apply(text) == [
        "~ scope web_0: kind standalone → availability-set, implied true → false",
        "- scope web",
    ]


def test_scope_can_change_its_tenant(world: World) -> None:
    text = BASE.replace('"shop"', '"bank"')
    assert world.apply(text) == [
        "+ tenant bank",
        "~ scope web: tenant shop → bank",
        "~ vm web_0: tenant shop → bank",
        "- tenant shop",
    ]


def test_tenant_change_of_an_implied_scope_prints_no_line() -> None:
    world = World()
    text = BASE + '[[vm]]\nname = "solo"\nhost = "h1"\n'
    world.apply(text)
    assert world.apply(text.replace('"shop"', '"bank"')) == [
        "+ tenant bank",
        "~ scope web: tenant shop → bank",
        "~ vm web_0: tenant shop → bank",
        "~ vm solo: tenant shop → bank",
        "- tenant shop",
    ]


@pytest.mark.clause("6.2")
def test_new_vm_in_a_scope_can_change_the_view_of_another() -> None:
    world = World()
    text = (
        '[[scope]]\nname = "g"\nkind = "scale-set"\ngpu = true\n[[host]]\nname = "h"\n'
        '[[host]]\nname = "i"\n[[vm]]\nname = "a"\nhost = "h"\nscope = "g"\n'
    )
    world.apply(text)
    more = '[[vm]]\nname = "b"\nhost = "i"\nscope = "g"\nfault_domain = 1\n'
    assert world.apply(text + more) == [
        "~ vm a: view g/a → g",
        "+ vm b on i (scope g)",
    ]


def refused(world: World, text: str) -> str:
    with pytest.raises(FleetFileError) as caught:
        world.plan(text)
    return caught.value.message


def test_host_of_a_migrated_vm_is_not_removed(world: World) -> None:
    world.change_vm("web_0", host="h2")
    text = BASE.replace('[[host]]\nname = "h2"\n', "")
    assert refused(world, text) == (
        'fleet.toml:11: vm.host: there is no host "h2", to which a migration moved'
        " web_0 (the file says h1); hosts are h1"
    )


def test_host_is_not_removed_while_a_vm_moves_to_it(world: World) -> None:
    world.change_vm("web_0", moving_to="h2")
    text = BASE.replace('[[host]]\nname = "h2"\n', "")
    assert refused(world, text) == (
        'fleet.toml:11: vm.host: there is no host "h2", to which web_0 is moving;'
        " hosts are h1"
    )


def test_host_capacity_must_cover_its_current_vms(world: World) -> None:
    more = '[[vm]]\nname = "x"\nhost = "h2"\n[[vm]]\nname = "y"\nhost = "h1"\n'
    world.apply(BASE + more)
    world.change_vm("web_0", host="h2")
    world.change_vm("y", moving_to="h2")
    text = (BASE + more).replace('name = "h2"', 'name = "h2"\ncapacity = 2')
    assert refused(world, text) == (
        "fleet.toml:11: host.capacity: the host has a capacity of 2 and 3 VMs:"
        " web_0 (moved there), x, y (moving there)"
    )


@pytest.mark.clause("6.3")
def test_new_vm_on_a_host_with_another_fault_domain_is_refused(world: World) -> None:
    world.change_vm("web_0", host="h2")
    more = '[[vm]]\nname = "web_1"\nhost = "h2"\nscope = "web"\nfault_domain = 1\n'
    assert refused(world, BASE + more) == (
        "fleet.toml:19: vm.fault_domain: host h2 would hold two fault domains of scope"
        " web: 1 of web_1 and 0 of web_0 (moved there)"
    )


def test_scope_of_a_vm_outside_the_file_is_not_removed(world: World) -> None:
    foreign = replace(world.vm("web_0"), name="other", wire_name="other", applied="")
    world.records[Kind.VM]["other"] = replace(
        foreign, vm_id="01234567-89ab-8cde-8f01-23456789abcd"
    )
    text = BASE.replace('"web"', '"webs"')
    assert refused(world, text) == (
        'fleet.toml: vm.scope of other: there is no scope "web"; scopes are webs'
        ' (did you mean "webs"?)'
    )


def test_values_without_a_file_are_also_merged() -> None:
    wanted = WantedFleet(
        tenants={},
        scopes={"s": Scope(name="s", tenant="t", kind=ScopeKind.SCALE_SET)},
        hosts={},
        vms={},
    )
    with pytest.raises(FleetFileError) as caught:
        World().plan_for(wanted)
    assert caught.value.message == (
        'scope.tenant of s: there is no tenant "t"; there are no tenants'
    )
    planned = World().plan_for(
        replace(wanted, tenants={"t": Tenant(name="t", applied="{}")})
    )
    assert list(planned.lines()) == ["+ tenant t", "+ scope s (scale-set of t)"]
