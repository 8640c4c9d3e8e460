"""A hypervisor put VMs where a fleet file may not place them."""

import pytest

from forewarn.fleet.errors import FleetFileError, Kind
from forewarn.fleet.export import export_fleet
from forewarn.fleet.file import read_fleet
from tests.unit.fleet.test_merge import World

SHARED = """\
scope = [{ name = "web", kind = "availability-set" }]
host = [{ name = "h1" }, { name = "h2" }, { name = "h3" }]
vm = [
  { name = "web_0", host = "h1", scope = "web", fault_domain = 0 },
  { name = "web_1", host = "h2", scope = "web", fault_domain = 1 },
]
"""
CROWDED = """\
host = [{ name = "h1" }, { name = "h2", capacity = 1 }, { name = "h3" }]
vm = [
  { name = "web_0", host = "h1" },
  { name = "web_1", host = "h2" },
]
"""
CROWDED_MEMORY = """\
host = [
  { name = "h1" }, { name = "h2", vcpu = 2, memory = "8GiB" }, { name = "h3" }]
vm = [
  { name = "web_0", host = "h1", vcpu = 1, memory = "4GiB" },
  { name = "web_1", host = "h2", vcpu = 2, memory = "6GiB" },
]
"""
NEW_HOST = ('{ name = "h3" }]', '{ name = "h3" }, { name = "h4" }]')
NEW_VM = (
    "vm = [",
    'vm = [{ name = "web_2", host = "h2", scope = "web", fault_domain = 1 },',
)
RELABELLED = ("fault_domain = 1", "fault_domain = 2")


def moved(text: str) -> World:
    """Return a fleet in which web_0 was observed on h2."""
    world = World()
    world.apply(text)
    world.change_vm("web_0", host="h2")
    return world


def exported(world: World) -> str:
    records = world.records
    return export_fleet(
        *(records[kind].values() for kind in (Kind.TENANT, Kind.SCOPE)),
        *(records[kind].values() for kind in (Kind.HOST, Kind.VM)),
    )


@pytest.mark.clause("6.3")
@pytest.mark.parametrize("text", [SHARED, CROWDED, CROWDED_MEMORY])
def test_file_that_does_not_cause_an_observed_conflict_is_applied(text: str) -> None:
    world = moved(text)
    note = "vm web_0 stays on h2, where a migration moved it (the file says h1)"
    assert world.apply(text) == [note]
    assert world.apply(text.replace(*NEW_HOST)) == ["+ host h4", note]
    assert world.vm("web_0").host == "h2"


@pytest.mark.clause("6.3")
@pytest.mark.parametrize(
    ("text", "change"),
    [
        (SHARED, NEW_VM),
        (SHARED, RELABELLED),
        (CROWDED, ("vm = [", 'vm = [{ name = "web_2", host = "h2" },')),
        (
            CROWDED.replace("capacity = 1", "capacity = 2"),
            ("capacity = 2", "capacity = 1"),
        ),
        (CROWDED_MEMORY, ('"8GiB"', '"7GiB"')),
        (CROWDED_MEMORY, ('"4GiB"', '"5GiB"')),
        (CROWDED_MEMORY, ("vcpu = 1", "vcpu = 2")),
    ],
)
def test_file_that_worsens_an_observed_conflict_is_refused(
    text: str, change: tuple[str, str]
) -> None:
    world = moved(text)
    with pytest.raises(FleetFileError):
        world.apply(text.replace(*change))


@pytest.mark.clause("6.3")
def test_file_that_makes_another_conflict_is_refused() -> None:
    world = moved(SHARED)
    world.change_vm("web_1", host="h3")
    text = SHARED.replace(
        "vm = [", 'vm = [{ name = "web_2", host = "h3", scope = "web" },'
    )
    with pytest.raises(FleetFileError, match="h3 would hold two fault domains"):
        world.apply(text)


def test_file_moves_a_vm_out_of_an_observed_conflict() -> None:
    world = moved(SHARED)
    assert world.apply(SHARED.replace('host = "h1", scope', 'host = "h3", scope')) == [
        "~ vm web_0: host h2 → h3"
    ]


@pytest.mark.clause("6.3")
@pytest.mark.parametrize("text", [SHARED, CROWDED, CROWDED_MEMORY])
def test_export_of_a_fleet_with_an_observed_conflict_can_be_applied(text: str) -> None:
    world = moved(text)
    written = exported(world)
    assert "# It is on host h2 now, where a file cannot place it.\n" in written
    assert read_fleet(written, name="fleet.toml").vms["web_0"].host == "h1"
    assert world.apply(written) == [
        "vm web_0 stays on h2, where a migration moved it (the file says h1)"
    ]


@pytest.mark.clause("6.3")
def test_export_resets_each_vm_that_a_reset_brings_into_conflict() -> None:
    world = moved(SHARED)
    world.change_vm("web_1", host="h1")
    world.change_vm("web_0", host="h1")
    vms = read_fleet(exported(world), name="fleet.toml").vms
    assert {name: vm.host for name, vm in vms.items()} == {
        "web_0": "h1",
        "web_1": "h2",
    }
