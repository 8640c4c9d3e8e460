"""Hosts that cannot be emptied, and what a plan says about them."""

from collections.abc import Sequence

import pytest

from forewarn.campaigns.clearing import Reason, Refusal, pools_of, refusals, room_limit
from forewarn.campaigns.fleet_map import FleetMap, HostRow
from forewarn.campaigns.model import Impact
from forewarn.fleet.model import ScopeKind
from forewarn.fleet.reserve import NO_RESERVE
from forewarn.settings.amounts import Amount, amount_of
from forewarn.wording.campaigns import refusal
from tests.support.campaign_checker import Fleet, VmRow, placement_refuses


def refused(
    fleet: FleetMap, hosts: Sequence[int], reserve: Amount = NO_RESERVE
) -> dict[int, Refusal]:
    """Return the hosts whose VMs cannot be moved away."""
    pools = pools_of(fleet, reserve)
    return refusals(fleet, hosts, Impact.LIVE_MIGRATE, (), pools=pools)


def told(fleet: Fleet, host: str) -> tuple[Reason, str] | None:
    """Return the reason and the sentence for a host; None: it can be emptied."""
    mapped = fleet.mapped()
    number = mapped.numbers[host]
    refusal_of_host = refused(mapped, [number]).get(number)
    assert (refusal_of_host is None) == (placement_refuses(host, fleet) is None)
    return (
        None
        if refusal_of_host is None
        else (refusal_of_host.reason, refusal(refusal_of_host))
    )


def test_enough_memory_in_total_that_no_second_vm_fits_into_is_no_fit() -> None:
    hosts = [
        HostRow(name="h1", capacity=4, memory=16),
        HostRow(name="h2", capacity=4, memory=6),
        HostRow(name="h3", capacity=4, memory=4),
    ]
    vms = [VmRow("h1", f"alone{n}", "shop", memory=5) for n in range(2)]
    refused_with = told(Fleet(hosts, vms), "h1")
    assert refused_with is not None
    assert refused_with[0] is Reason.NO_FIT
    assert "enough free capacity in total, but its hosts cannot take" in refused_with[1]
    wider = [hosts[0], hosts[1], hosts[2]._replace(memory=5)]
    assert told(Fleet(wider, vms), "h1") is None


@pytest.mark.parametrize(
    ("reserve", "kept"), [("1", 4), ("25%", 3), ("0", 0), ("10%", 1)]
)
def test_host_whose_vms_would_use_the_reserve_is_refused_with_the_sums(
    reserve: str, kept: int
) -> None:
    hosts = [HostRow(name=f"h{n}", pool="p", capacity=4) for n in range(3)]
    vms = [VmRow(f"h{n}", f"alone{n}{m}", "shop") for n in range(3) for m in (0, 1)]
    mapped = Fleet(hosts, vms).mapped()
    amount = amount_of(reserve)
    refused_with = refused(mapped, [0], amount).get(0)
    # The other hosts have four free places, and the host needs two.
    if kept <= 2:
        assert refused_with is None
    else:
        assert refused_with is not None
        assert refusal(refused_with) == (
            "the host has 2 VMs to move, and the other hosts of pool p have capacity "
            f"for 4, of which policy.reserve keeps {kept}"
        )
    together = room_limit(mapped, [0, 1, 2], pools_of(mapped, amount)).most
    assert together[1] == 1
    without_limit = [*hosts, HostRow(name="h9", pool="p")]
    wide = Fleet(without_limit, vms).mapped()
    assert not refused(wide, [0], amount)


def test_hosts_that_are_emptied_together_leave_the_reserve() -> None:
    hosts = [HostRow(name=f"h{n}", pool="p", capacity=4) for n in range(8)]
    vms = [VmRow(f"h{n}", f"alone{n}", "shop") for n in range(8)]
    mapped = Fleet(hosts, vms).mapped()
    most = [
        room_limit(mapped, range(8), pools_of(mapped, amount_of(text))).most[1]
        for text in ("0", "1", "2", "50%")
    ]
    # Of 24 free places, a host needs its four.
    assert most == [6, 5, 4, 2]


def test_racks_with_more_vms_of_the_scope_are_no_targets() -> None:
    hosts = [
        HostRow(name="h1", rack="r1"),
        HostRow(name="h2", rack="r2"),
        HostRow(name="h3", rack="r2"),
    ]
    vms = [VmRow(host, "db", "shop") for host in ("h1", "h2")]
    refused_with = told(Fleet(hosts, vms), "h1")
    assert refused_with is not None
    assert refused_with[0] is Reason.RACKS
    assert "in racks with more VMs of the scope" in refused_with[1]
    assert told(Fleet([*hosts, HostRow(name="h4", rack="r3")], vms), "h1") is None


def test_second_vm_of_a_scope_needs_another_rack_than_the_first() -> None:
    """One rack has capacity for both, and may take only one of them."""
    hosts = [HostRow(name="h1", rack="r1"), HostRow(name="h2", rack="r2")]
    vms = [VmRow("h1", "db", "shop"), VmRow("h1", "db", "shop")]
    assert told(Fleet(hosts, vms), "h1") is None
    vms.append(VmRow("h2", "db", "shop"))
    refused_with = told(Fleet(hosts, vms), "h1")
    assert refused_with is not None
    assert refused_with[0] is Reason.RACKS


@pytest.mark.parametrize("zone", ["z1", "z2"])
def test_vm_of_a_scale_set_stays_in_its_zone(zone: str) -> None:
    hosts = [HostRow(name="h1", zone="z1"), HostRow(name="h2", zone=zone)]
    fleet = Fleet(hosts, [VmRow("h1", "set", "shop")], {"set": ScopeKind.SCALE_SET})
    refused_with = told(fleet, "h1")
    assert (refused_with is None) == (zone == "z1")


def test_large_fleet_is_judged_without_placement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Placement itself assigns VMs only where capacity is scarce: it takes longer."""
    hosts = [
        HostRow(name=f"h{n:03}", rack=f"r{n % 20}", capacity=12, memory=64)
        for n in range(400)
    ]
    vms = [
        VmRow(f"h{n % 400:03}", f"s{n // 5}", "shop", n % 5, memory=4)
        for n in range(4_000)
    ]
    fleet = Fleet(hosts, vms)
    mapped = fleet.mapped()
    calls: list[int] = []
    monkeypatch.setattr(
        "forewarn.campaigns.targets.choose_host", lambda *_, **__: calls.append(1)
    )
    refused_hosts = refused(mapped, range(400))
    assert (refused_hosts, calls) == ({}, [])


def test_only_fixed_vms_keep_hosts_from_a_plan_if_the_driver_chooses() -> None:
    hosts = [HostRow(name=f"h{n}", pool="p", capacity=1) for n in range(3)]
    vms = [VmRow(f"h{n}", f"alone{n}", "shop", movable=n != 2) for n in range(3)]
    mapped = Fleet(hosts, vms).mapped()

    def reasons(found: dict[int, Refusal]) -> dict[int, Reason]:
        return {host: left_out.reason for host, left_out in found.items()}

    chosen = refusals(mapped, [0, 1, 2], Impact.LIVE_MIGRATE, (), pools=None)
    assert reasons(chosen) == {2: Reason.PINNED}
    full = Reason.NO_ROOM
    assert reasons(refused(mapped, [0, 1, 2])) == {0: full, 1: full, 2: Reason.PINNED}
