"""The tree of the instance endpoint."""

from dataclasses import replace

import pytest

from forewarn.fleet import instance
from forewarn.fleet.model import Scope, ScopeKind
from tests.unit.metadata.support import FACTS

NEWEST = instance.VERSIONS[-1]


def compute(facts: instance.InstanceFacts, version: str = NEWEST) -> dict[str, object]:
    tree = instance.document(facts, version=version)
    assert isinstance(tree, dict)
    members = tree["compute"]
    assert isinstance(members, dict)
    return dict(members)


@pytest.mark.clause("1.11")
def test_compute_document_describes_the_vm() -> None:
    assert compute(FACTS) == {
        "evictionPolicy": "",
        "location": "west",
        "name": "WestNO_0",
        "osType": "Linux",
        "placementGroupId": "",
        "platformFaultDomain": "2",
        "platformUpdateDomain": "3",
        "priority": "Regular",
        "provider": "Microsoft.Compute",
        "resourceGroupName": "rg",
        "resourceId": (
            "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Compute"
            "/virtualMachines/WestNO_0"
        ),
        "subscriptionId": "sub",
        "tags": "role:web;tier:ü",
        "tagsList": [
            {"name": "role", "value": "web"},
            {"name": "tier", "value": "ü"},
        ],
        "vmId": "11111111-2222-3333-4444-555555555555",
        "vmScaleSetName": "",
        "vmSize": "general-4",
        "zone": "1",
    }
    assert list(compute(FACTS)) == sorted(compute(FACTS))


@pytest.mark.clause("1.11")
def test_network_document_lists_the_interfaces() -> None:
    tree = instance.document(FACTS, version=NEWEST)
    assert instance.find(tree, ("network",)) == {
        "interface": [
            {
                "ipv4": {
                    "ipAddress": [
                        {"privateIpAddress": "192.0.2.4", "publicIpAddress": ""}
                    ],
                    "subnet": [],
                },
                "ipv6": {"ipAddress": [{"privateIpAddress": "2001:db8::4"}]},
                "macAddress": "",
            }
        ]
    }


@pytest.mark.clause("1.11")
@pytest.mark.parametrize(
    ("version", "count", "newest"),
    [
        ("2017-03-01", 7, "name"),
        ("2017-08-01", 11, "tags"),
        ("2017-12-01", 13, "zone"),
        ("2019-03-11", 15, "resourceId"),
        ("2019-06-04", 16, "tagsList"),
        ("2020-12-01", 18, "priority"),
    ],
)
def test_member_appears_from_its_version_on(
    version: str, count: int, newest: str
) -> None:
    members = compute(FACTS, version)
    assert len(members) == count
    assert newest in members


@pytest.mark.clause("1.11")
def test_spot_instance_of_a_scale_set_has_spot_priority() -> None:
    scope = Scope(
        name="db-pg1", tenant="shop", kind=ScopeKind.SCALE_SET, scale_set="db"
    )
    vm = replace(FACTS.vm, wire_name="db_7", spot=True)
    members = compute(replace(FACTS, vm=vm, scope=scope))
    assert members["priority"] == "Spot"
    assert members["evictionPolicy"] == "Delete"
    assert members["placementGroupId"] == "db-pg1"
    assert members["vmScaleSetName"] == "db"
    assert str(members["resourceId"]).endswith(
        "Microsoft.Compute/virtualMachineScaleSets/db/virtualMachines/7"
    )


@pytest.mark.clause("1.11")
@pytest.mark.parametrize("name", ["db_x", "other_7", "db", "_7"])
def test_vm_of_a_flexible_scale_set_has_its_own_resource_id(name: str) -> None:
    scope = Scope(name="db", tenant="shop", kind=ScopeKind.SCALE_SET)
    members = compute(replace(FACTS, vm=replace(FACTS.vm, wire_name=name), scope=scope))
    assert members["vmScaleSetName"] == "db"
    assert str(members["resourceId"]).endswith(
        f"Microsoft.Compute/virtualMachines/{name}"
    )


@pytest.mark.clause("1.11")
def test_node_is_found_by_its_path() -> None:
    tree = instance.document(FACTS, version=NEWEST)
    assert instance.find(tree, ()) is tree
    assert instance.find(tree, ("COMPUTE", "vmid")) == FACTS.vm.vm_id
    path = ("network", "interface", "0", "ipv4", "ipaddress", "0", "privateipaddress")
    assert instance.find(tree, path) == "192.0.2.4"
    for missing in [
        ("x",),
        ("network", "interface", "1"),
        ("network", "interface", "-1"),
        ("compute", "name", "0"),
    ]:
        assert instance.find(tree, missing) is None
    assert instance.listing(tree) == "compute/\nnetwork/"
    assert instance.listing("leaf") == ""
    tags = instance.find(tree, ("compute", "tagslist", "0"))
    assert tags is not None
    assert instance.listing(tags) == "name\nvalue"


@pytest.mark.clause("1.8", "1.11")
def test_instance_versions_are_sorted_and_differ_from_event_versions() -> None:
    assert list(instance.VERSIONS) == sorted(instance.VERSIONS)
    assert instance.NEWEST_NAMES == ("2025-04-07", "2024-07-17", "2024-03-15")
    assert not {"2019-04-01", "2020-07-01"} & set(instance.VERSIONS)
