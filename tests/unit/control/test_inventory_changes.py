"""Inventories in a running fleet: bounded removals, and running work is left alone."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from forewarn.control.requests import failures, fleet_changes, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.file import FleetText, WantedFleet
from forewarn.fleet.model import AppliedFile, Host, Vm
from forewarn.fleet.sources import removals_of
from forewarn.instants import HOUR, MINUTE
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action, OperationState, Verb
from forewarn.store import kinds
from tests.support.worlds import LastingStore, World

HOSTS = {f"h{number}": "" for number in range(10)}
VMS = {f"v{number}": f"h{number}" for number in range(10)}


def inventory(
    vms: Mapping[str, str], hosts: Mapping[str, str], limit: str = "2%"
) -> WantedFleet:
    text = "".join(
        f'[[host]]\nname = "{name}"\nrack = "{rack}"\n' for name, rack in hosts.items()
    ) + "".join(
        f'[[vm]]\nname = "{name}"\nhost = "{host}"\n' for name, host in vms.items()
    )
    file = FleetText(name="inventory", text=text, removals_max=removals_of(limit))
    return file.read()


def apply(
    world: World,
    vms: Mapping[str, str] = VMS,
    hosts: Mapping[str, str] = HOSTS,
    limit: str = "2%",
    unknown_hosts: tuple[str, ...] = (),
) -> list[str]:
    """Apply an inventory; return the lines of its plan."""
    wanted = replace(inventory(vms, hosts, limit), unknown_hosts=unknown_hosts)
    assert world.read(lambda reader: fleet_changes.preview(reader, wanted)) is not None
    merged = world.order(lambda work: fleet_changes.apply(work, wanted, digest=None))
    world.settle()
    return list(merged.lines())


def without(*names: str) -> dict[str, str]:
    return {name: host for name, host in VMS.items() if name not in names}


def missing(vm: str) -> str:
    return f"vm {vm} is not in the inventory; the next run without it removes it"


def placed(world: World) -> dict[str, str]:
    vms = world.read(lambda reader: reader.select(kinds.ALL_VMS))
    return {vm.name: vm.host for vm in vms}


@pytest.fixture
def world() -> World:
    store = LastingStore()
    world = World(store=lambda: store, driver=SimulatedDriver(), fleet="")
    apply(world)
    return world


def reboot(world: World, host: str, *, until: OperationState) -> None:
    world.order(
        lambda work: verbs.maintain(work, [host], Action.REBOOT, OrderOptions())
    )
    world.settle()
    while world.operations()[-1].state is not until:
        world.advance(MINUTE)


def test_nothing_is_removed_beyond_the_limit(world: World) -> None:
    few = {name: host for name, host in VMS.items() if name != "v9"}
    assert apply(world, few) == [missing("v9")]
    assert apply(world, few) == ["- vm v9"]
    half = dict(list(few.items())[:5])
    with pytest.raises(RefusedError) as caught:
        apply(world, half)
    assert caught.value.message == (
        "the inventory would remove 4 of 9 VMs; one run may remove 1 (2%)"
    )
    assert "--removals-max 4" in caught.value.hint
    assert len(placed(world)) == 9
    assert apply(world, half, limit="4") == [missing(f"v{n}") for n in range(5, 9)]
    with pytest.raises(RefusedError, match="would remove 4 of 9 VMs"):
        apply(world, half)
    assert len(apply(world, half, limit="4")) == 4


def test_an_empty_inventory_removes_nothing(world: World) -> None:
    with pytest.raises(RefusedError, match="would remove 10 of 10 VMs"):
        apply(world, {}, {})
    with pytest.raises(RefusedError, match="would remove 10 of 10 VMs"):
        apply(world, {})
    assert len(placed(world)) == 10
    apply(world, {}, {}, limit="100%")
    assert len(placed(world)) == 10
    apply(world, {}, {}, limit="100%")
    assert not placed(world)


def test_objects_of_an_author_and_deleted_vms_do_not_count(world: World) -> None:
    author = FleetText(
        name="fleet.toml",
        text='[[host]]\nname = "old"\n'
        + "".join(f'[[vm]]\nname = "a{n}"\nhost = "old"\n' for n in range(90)),
    )
    world.order(
        lambda work: fleet_changes.apply(work, author.read(), digest=author.digest())
    )
    world.settle()
    world.order(
        lambda work: verbs.change_vms(work, ["v0"], Verb.TERMINATE, OrderOptions())
    )
    world.advance(HOUR)
    left = {name: host for name, host in VMS.items() if name not in {"v0", "v1"}}
    assert apply(world, left) == ["- vm v0", missing("v1")]
    assert apply(world, left) == ["- vm v1"]
    with pytest.raises(RefusedError, match="would remove 2 of 8 VMs"):
        apply(world, dict(list(left.items())[2:]))
    # The service still knows the file of the author.
    assert world.read(lambda reader: fleet_changes.is_applied(reader, author))


def test_a_run_without_a_change_writes_nothing(world: World) -> None:
    entries = world.read(lambda reader: reader.select(kinds.ALL_AUDIT))
    before = world.read(lambda reader: reader.get(Vm, "v0"))
    assert apply(world) == []
    assert world.read(lambda reader: reader.select(kinds.ALL_AUDIT)) == entries
    assert world.read(lambda reader: reader.get(Vm, "v0")) == before
    assert world.read(lambda reader: reader.get(AppliedFile, "fleet")) is None


def test_a_vm_on_which_the_driver_works_is_left_until_it_is_done(world: World) -> None:
    reboot(world, "h1", until=OperationState.IMPACTING)
    vms = VMS | {"v1": "h2", "v3": "h4"}
    first, second = sorted(apply(world, vms))
    assert "vm v1 is left as it is for now: cannot move VM v1: operation" in first
    assert second == "~ vm v3: host h3 → h4"
    assert placed(world)["v1"] == "h1"
    world.advance(HOUR)
    assert apply(world, vms) == ["~ vm v1: host h1 → h2"]


def test_a_new_vm_on_a_host_with_announced_work_comes_later(world: World) -> None:
    reboot(world, "h1", until=OperationState.ANNOUNCED)
    vms = VMS | {"new": "h1", "other": "h2"}
    lines = apply(world, vms)
    assert "+ vm other on h2 (its own scope)" in lines
    assert any("vm new is left as it is for now: cannot put" in line for line in lines)
    assert world.read(lambda reader: reader.select(kinds.ALL_SCOPES, limit=99))
    assert "new" not in placed(world)
    world.advance(HOUR)
    assert apply(world, vms) == ["+ vm new on h1 (its own scope)"]


def test_a_host_in_work_is_removed_later(world: World) -> None:
    reboot(world, "h1", until=OperationState.IMPACTING)
    hosts = {name: "" for name in HOSTS if name != "h1"}
    vms = without("v1")
    assert apply(world, vms, hosts) == [missing("v1")]
    lines = apply(world, vms, hosts)
    assert any(line.startswith("host h1 is left as it is for now") for line in lines)
    assert world.read(lambda reader: reader.get(Host, "h1"))
    world.advance(HOUR)
    assert "- host h1" in apply(world, vms, hosts)


def test_a_vm_on_a_host_that_is_down_comes_after_its_repair(world: World) -> None:
    world.order(lambda work: failures.fail_host(work, "h5"))
    world.settle()
    vms = VMS | {"new": "h5"}
    assert "the host is down" in apply(world, vms)[0]
    world.order(lambda work: failures.restore_host(work, "h5"))
    world.settle()
    assert apply(world, vms) == ["+ vm new on h5 (its own scope)"]


def test_an_author_and_an_inventory_can_write_one_vm(world: World) -> None:
    author = FleetText(
        name="fleet.toml",
        text='[[scope]]\nname = "web"\nkind = "availability-set"\n'
        '[[host]]\nname = "h0"\n'
        '[[vm]]\nname = "v0"\nhost = "h0"\nscope = "web"\nfault_domain = 3\n',
    )
    world.order(lambda work: fleet_changes.apply(work, author.read()))
    world.settle()
    assert apply(world) == []
    vm = world.read(lambda reader: reader.get(Vm, "v0"))
    assert vm is not None
    assert (vm.scope, vm.fault_domain) == ("web", 3)
    assert replace(vm, revision=0).found


def test_vm_is_removed_by_the_second_run_in_a_row_without_it(world: World) -> None:
    vms = without("v1")
    assert apply(world, vms) == [missing("v1")]
    assert world.stored_vm("v1").is_missing
    assert apply(world) == []
    assert not world.stored_vm("v1").is_missing
    assert apply(world, vms) == [missing("v1")]
    assert apply(world, vms) == ["- vm v1"]


def test_host_of_a_missing_vm_is_removed_with_it(world: World) -> None:
    hosts = {name: "" for name in HOSTS if name != "h1"}
    assert apply(world, without("v1"), hosts) == [missing("v1")]
    assert set(apply(world, without("v1"), hosts)) == {"- vm v1", "- host h1"}


def test_vm_on_which_the_driver_works_is_not_removed(world: World) -> None:
    reboot(world, "h1", until=OperationState.IMPACTING)
    vms = without("v1")
    assert apply(world, vms) == [missing("v1")]
    [line] = apply(world, vms)
    assert "vm v1 is left as it is for now: cannot remove VM v1: operation" in line
    assert world.operations()[-1].state is OperationState.IMPACTING
    world.advance(HOUR)
    assert apply(world, vms) == ["- vm v1"]


def test_vm_that_was_renamed_is_removed_at_once(world: World) -> None:
    def inventory_with(name: str) -> WantedFleet:
        vm = f'[[vm]]\nname = "{name}"\nhost = "h1"\naddress = "192.0.2.4"\n'
        wanted = inventory(VMS, HOSTS)
        text = "".join(f'[[host]]\nname = "{host}"\n' for host in HOSTS)
        text += "".join(
            f'[[vm]]\nname = "{vm}"\nhost = "{host}"\n' for vm, host in VMS.items()
        )
        return replace(
            FleetText(name="x", text=text + vm).read(), removals_max=wanted.removals_max
        )

    for name, lines in (
        ("old", ["+ vm old on h1 (its own scope)"]),
        ("new", ["+ vm new on h1 (its own scope)", "- vm old"]),
    ):
        wanted = inventory_with(name)
        merged = world.order(lambda work, it=wanted: fleet_changes.apply(work, it))
        assert list(merged.lines()) == lines


def test_host_that_could_not_be_read_is_kept_with_its_vms(world: World) -> None:
    hosts = {name: "r1" for name in HOSTS if name != "h7"}
    # Its definition is left on another host, where it does not run.
    vms = without("v7", "v8") | {"v7": "h6"}
    away = ("qemu+ssh://root@h7/system: no route to host",)
    lines = apply(world, vms, hosts, unknown_hosts=away)
    assert missing("v8") in lines
    assert [line for line in lines if "h7" in line] == [
        f"host h7 is left as it is for now: the inventory could not read {away[0]}"
    ]
    assert "- vm v8" in apply(world, vms, hosts, unknown_hosts=away)
    assert placed(world)["v7"] == "h7"
    assert not world.stored_vm("v7").is_missing
    assert apply(world, vms, hosts) == ["~ vm v7: host h7 → h6", "- host h7"]
