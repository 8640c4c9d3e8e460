"""An author and an inventory write one fleet: whose value counts, and who removes."""

import re
from dataclasses import replace

import pytest

from forewarn.fleet import merge
from forewarn.fleet.errors import FleetFileError, Kind
from forewarn.fleet.fields import FIELDS, base_of, value_of
from forewarn.fleet.file import read_fleet
from forewarn.fleet.merge import Action, Change, MergePlan, plan
from forewarn.fleet.model import VmState
from forewarn.fleet.sources import (
    Authority,
    Kept,
    first_misses,
    fixing_source,
    kept_with,
    removals_of,
    unread,
)
from tests.unit.fleet.test_export import WRITTEN
from tests.unit.fleet.test_merge import World

FOUND = """\
[[host]]
name = "h1"
rack = "r1"
vcpu = 64
[[host]]
name = "h2"
rack = "r2"
[[vm]]
name = "web_0"
host = "h1"
vcpu = 4
address = "192.0.2.4"
[[vm]]
name = "web_1"
host = "h2"
"""
BY_HAND = """\
[[host]]
name = "h1"
rack = "r9"
[[host]]
name = "old"
[[vm]]
name = "solo"
host = "old"
"""


class TwoSources(World):
    """A fleet that both sources write."""

    def find(self, text: str) -> list[str]:
        """Apply the file of an inventory; return the lines of the plan."""
        planned = self.plan_found(text)
        self.carry_out(planned.writes())
        return list(planned.lines())

    def plan_found(self, text: str) -> MergePlan:
        wanted = read_fleet(text, name="inventory.toml")
        return self.plan_for(replace(wanted, removals_max=removals_of("2%")))


@pytest.fixture
def fleet() -> TwoSources:
    sources = TwoSources()
    sources.find(FOUND)
    return sources


def host(fleet: TwoSources, name: str) -> str:
    record = fleet.records[Kind.HOST][name]
    return f"{record.rack} {record.vcpu}"


def test_an_inventory_that_changes_nothing_writes_nothing(fleet: TwoSources) -> None:
    assert not fleet.plan_found(FOUND).changes


def test_an_author_and_an_inventory_remove_only_what_they_gave(
    fleet: TwoSources,
) -> None:
    assert set(fleet.apply(BY_HAND)) == {
        "+ host old",
        "+ vm solo on old (its own scope)",
        "~ host h1: rack r1 → r9",
    }
    assert fleet.find(FOUND) == []
    assert set(fleet.records[Kind.VM]) == {"web_0", "web_1", "solo"}
    fewer = FOUND[: FOUND.rindex("[[vm]]")]
    assert "- vm web_1" in fleet.find(fewer)
    assert set(fleet.records[Kind.VM]) == {"web_0", "solo"}
    assert set(fleet.apply("")) >= {"- vm solo", "- host old"}
    assert set(fleet.records[Kind.VM]) == {"web_0"}


def test_the_value_of_an_author_counts_while_it_is_there(fleet: TwoSources) -> None:
    fleet.apply(BY_HAND)
    assert host(fleet, "h1") == "r9 64"
    moved = FOUND.replace('"r1"', '"r3"').replace("64", "96")
    assert fleet.find(moved)[0] == "~ host h1: vcpu 64 → 96"
    assert host(fleet, "h1") == "r9 96"
    assert "~ host h1: rack r9 → r3" in fleet.apply("")
    assert host(fleet, "h1") == "r3 96"


def test_an_object_of_both_is_removed_when_the_second_drops_it(
    fleet: TwoSources,
) -> None:
    fleet.apply(BY_HAND)
    without = FOUND[FOUND.index('[[host]]\nname = "h2"') :].replace('"h1"', '"h2"')
    assert "~ host h1: vcpu 64 → none" in fleet.find(without)
    assert host(fleet, "h1") == "r9 None"
    assert "- host h1" in fleet.apply("")


def test_a_vm_that_forewarn_moved_stays_until_the_inventory_moves_it(
    fleet: TwoSources,
) -> None:
    fleet.change_vm("web_0", host="h2")
    assert fleet.find(FOUND) == [
        "vm web_0 stays on h2, where a migration moved it (the file says h1)"
    ]
    # The hypervisor's view catches up: the value is stored, and nothing else changes.
    inventory = FOUND.replace(
        'name = "web_0"\nhost = "h1"', 'name = "web_0"\nhost = "h2"'
    )
    assert fleet.plan_found(inventory).is_empty
    fleet.find(inventory)
    assert not fleet.plan_found(inventory).changes
    assert fleet.find(FOUND) == ["~ vm web_0: host h2 → h1"]


def test_a_deleted_vm_stays_deleted_until_the_inventory_drops_it(
    fleet: TwoSources,
) -> None:
    fleet.change_vm("web_1", state=VmState.DELETED)
    assert fleet.find(FOUND) == [
        "vm web_1 was deleted by a request; remove it from the file"
    ]
    assert fleet.vm("web_1").state is VmState.DELETED
    assert "- vm web_1" in fleet.find(FOUND[: FOUND.rindex("[[vm]]")])


def test_a_host_with_a_vm_of_an_author_is_not_removed(fleet: TwoSources) -> None:
    fleet.apply('[[host]]\nname = "h2"\n[[vm]]\nname = "solo"\nhost = "h2"\n')
    fleet.apply("")
    fleet.records[Kind.VM]["alien"] = replace(
        fleet.vm("web_1"), name="alien", wire_name="alien", found="", scope="web_0"
    )
    with pytest.raises(FleetFileError, match="there is no host"):
        fleet.find(FOUND.replace('"h2"', '"h3"'))


def test_kept_vms_keep_their_host_and_scope(fleet: TwoSources) -> None:
    wanted = read_fleet(
        '[[host]]\nname = "h1"\n[[vm]]\nname = "new"\nhost = "h1"\n', name="x"
    )
    wanted = replace(wanted, removals_max=removals_of("100%"))
    vms = fleet.records[Kind.VM]
    kept_records = kept_with({Kind.VM: {"web_1", "new"}}, vms, wanted)
    assert "h2" in kept_records.of(Kind.HOST)
    assert {"web_1", "new"} <= set(kept_records.of(Kind.SCOPE))
    planned = plan(
        wanted,
        tenants=fleet.records[Kind.TENANT].values(),
        scopes=fleet.records[Kind.SCOPE].values(),
        hosts=fleet.records[Kind.HOST].values(),
        vms=vms.values(),
        kept=kept_records,
    )
    fleet.carry_out(planned.writes())
    assert set(fleet.records[Kind.VM]) == {"web_1"}
    assert set(fleet.records[Kind.HOST]) == {"h1", "h2"}
    assert set(fleet.records[Kind.SCOPE]) == {"web_1"}
    assert Kept().of(Kind.VM) == ()


def test_vm_that_an_inventory_lacks_is_missing_first_and_back_when_it_has_it(
    fleet: TwoSources,
) -> None:
    fleet.apply(BY_HAND)
    fleet.change_vm("web_1", is_missing=True)
    wanted = read_fleet('[[host]]\nname = "h1"\n', name="x")
    vms = fleet.records[Kind.VM].values()
    assert [vm.name for vm in first_misses(vms, wanted)] == ["web_0"]
    assert first_misses((), wanted) == []
    assert fleet.find(FOUND) == []
    assert not fleet.vm("web_1").is_missing
    miss = Change(
        kind=Kind.VM, action=Action.MISS, name="a", before=None, after=fleet.vm("web_0")
    )
    assert [*miss.lines()] == [
        "vm a is not in the inventory; the next run without it removes it"
    ]


def test_vm_whose_address_another_vm_has_is_gone(fleet: TwoSources) -> None:
    listens = FOUND.replace('address = "192.0.2.4"', 'listen = "127.0.0.1:81"')
    fleet.find(listens)
    assert fleet.vm("web_0").listen
    renamed = read_fleet(listens.replace('"web_0"', '"new"'), name="x")
    assert first_misses(fleet.records[Kind.VM].values(), renamed) == []


def test_hosts_that_an_inventory_lacks_are_unread_if_some_could_not_be_read(
    fleet: TwoSources,
) -> None:
    hosts, vms = fleet.records[Kind.HOST].values(), fleet.records[Kind.VM].values()
    wanted = read_fleet('[[host]]\nname = "h1"\n', name="x")
    assert unread(hosts, vms, wanted) == {Kind.HOST: (), Kind.VM: ()}
    wanted = replace(wanted, unknown_hosts=("h9",))
    assert unread(hosts, vms, wanted) == {Kind.HOST: {"h2"}, Kind.VM: {"web_1"}}
    note = merge.unread(fleet.records[Kind.HOST]["h2"], ("h9", "h10"))
    assert [*note.lines()] == [
        "host h2 is left as it is for now: the inventory could not read h9, h10"
    ]


def test_a_plan_says_why_an_object_is_left_as_it_is(fleet: TwoSources) -> None:
    vm = fleet.vm("web_0")
    note = Change(
        kind=Kind.VM,
        action=Action.NOTE,
        name=vm.name,
        before=vm,
        after=vm,
        reason="it moves",
    )
    assert [*note.lines()] == ["vm web_0 is left as it is for now: it moves"]


def test_stored_values_are_read_as_a_file_writes_them() -> None:
    window = (
        'maintenance_window = {days = ["sat"], start = "02:00", length = "4h",'
        ' timezone = "Europe/Berlin"}'
    )
    text = WRITTEN.replace("gpu = true", f"gpu = true\n{window}")
    text = re.sub("wire_name = .*", 'wire_name = "odd"', text)
    text = text.replace("vcpu = 0", "vcpu = 8")
    wanted = read_fleet(text, name="fleet.toml")
    for kind, records in (
        (Kind.SCOPE, wanted.scopes),
        (Kind.HOST, wanted.hosts),
        (Kind.VM, wanted.vms),
    ):
        for record in records.values():
            for field in FIELDS[kind]:
                value = value_of(kind, record, field.key, base_of(record))
                assert value == getattr(record, field.attribute), field.key


@pytest.mark.parametrize("text", ["", "-1", "101%", "2 %", "many"])
def test_a_wrong_limit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        removals_of(text)


def test_a_person_counts_first_for_what_fixes_a_vm(fleet: TwoSources) -> None:
    fixed = FOUND.replace("vcpu = 4\n", "vcpu = 4\nmovable = false\n")
    fleet.find(fixed)
    vms = fleet.records[Kind.VM]
    assert fixing_source(vms["web_0"]) is Authority.INVENTORY
    assert fixing_source(vms["web_1"]) is Authority.FILE
    fleet.apply(fixed)
    assert fixing_source(fleet.records[Kind.VM]["web_0"]) is Authority.FILE
