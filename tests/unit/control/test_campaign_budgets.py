"""Campaigns keep the budgets of racks, tenants and the whole fleet."""

from collections import Counter

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import campaigns, cordons, failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules import campaign_gate, tallies
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.fleet.room_tallies import hosts_at
from forewarn.protocol.operations import Action
from forewarn.store.memory import MemoryStore
from tests.support.campaigns import (
    ONE_STAGE,
    campaign,
    file_of,
    in_work,
    start,
    start_text,
    steer,
    waits_for,
)
from tests.support.counted import Counted
from tests.support.worlds import World


def world(
    hosts: int,
    *,
    per_rack: int,
    tenants: int = 1,
    window: str = "",
    driver: SimulatedDriver | None = None,
) -> World:
    """Return a world of racks, where each host has two VMs of one tenant.

    The racks after the first have a maintenance window, such as `start = "09:00"`.
    """
    lines = lines_of(hosts, per_rack=per_rack, tenants=tenants, window=window)
    driver = driver or SimulatedDriver()
    return World(store=MemoryStore, driver=driver, fleet="\n".join(lines))


def lines_of(
    hosts: int, *, per_rack: int, tenants: int = 1, window: str = ""
) -> list[str]:
    """Return the fleet of `world`."""
    lines = [f'[[tenant]]\nname = "t{number}"' for number in range(tenants)]
    for number in range(hosts):
        tenant = f"t{number % tenants}"
        has_window = window and number >= per_rack
        kept = f"maintenance_window = {{ {window} }}" if has_window else ""
        lines.append(
            f'[[host]]\nname = "h{number:02}"\nrack = "r{number // per_rack}"\n'
            f'labels = {{ model = "m{number % 2}" }}'
        )
        lines += [
            (
                f'[[scope]]\nname = "s{number}"\ntenant = "{tenant}"\n'
                f'kind = "availability-set"\n{kept}'
            )
        ]
        lines += [
            f'[[vm]]\nname = "v{number}-{rack}"\nhost = "h{number:02}"\n'
            f'scope = "s{number}"'
            for rack in range(2)
        ]
    return lines


def rack_of(host: str, per_rack: int) -> int:
    return int(host.removeprefix("h")) // per_rack


def play(service: World) -> list[list[str]]:
    """Advance to the end of the campaign; return the hosts in work in each minute."""
    seen: list[list[str]] = []
    for _ in range(3 * 24 * 60):
        service.advance("1m")
        seen.append(in_work(service))
        if campaign(service).state is CampaignState.DONE:
            return seen
    raise AssertionError(f"the campaign has not ended: {waits_for(service)}")


def test_one_host_of_a_rack_is_in_flight() -> None:
    service = world(12, per_rack=3)
    start(
        service,
        "[campaign.budget]\nin_flight = 8\n"
        f'[[campaign.budget.by]]\nlabel = "rack"\nmax = 1\n{ONE_STAGE}',
    )
    seen = play(service)
    assert max(map(len, seen)) == 4
    for hosts in seen:
        assert max(Counter(rack_of(host, 3) for host in hosts).values(), default=0) <= 1


def test_hosts_whose_windows_open_together_keep_the_budget_of_their_rack() -> None:
    """All are due at the same instant, and each must know of those before it."""
    service = world(8, per_rack=4, window='start = "09:00", length = "6h"')
    start(
        service,
        "[campaign.budget]\nin_flight = 4\n"
        f'[[campaign.budget.by]]\nlabel = "rack"\nmax = 1\n{ONE_STAGE}',
    )
    service.advance("8h")
    assert campaign(service).done == 4
    assert max(map(len, play(service))) == 1


def test_a_percentage_counts_the_hosts_with_the_label() -> None:
    service = world(20, per_rack=20)
    start(
        service,
        "[campaign.budget]\nin_flight = 20\n"
        f'[[campaign.budget.by]]\nlabel = "model"\nmax = "20%"\n{ONE_STAGE}',
    )
    seen = play(service)
    assert max(map(len, seen)) == 4
    for hosts in seen:
        models = Counter(int(host.removeprefix("h")) % 2 for host in hosts)
        assert max(models.values(), default=0) <= 2


def test_maintenance_of_a_rack_counts_too() -> None:
    service = world(4, per_rack=4)
    service.order(
        lambda work: verbs.maintain(work, ["h03"], Action.REBOOT, OrderOptions())
    )
    start(
        service,
        "[campaign.budget]\nin_flight = 4\n"
        f'[[campaign.budget.by]]\nlabel = "rack"\nmax = 1\n{ONE_STAGE}',
    )
    assert in_work(service) == ["h03"]
    planned = next(
        operation for operation in service.operations() if operation.host == "h00"
    )
    assert service.explain(planned.operation_id) == [
        "campaign bios: 1 of 1 hosts of rack=r0 are in flight"
    ]
    seen = play(service)
    assert max(map(len, seen)) == 1


@pytest.mark.parametrize("way_out", ["skip", "abort"])
def test_host_that_failed_in_another_campaign_counts(way_out: str) -> None:
    driver = SimulatedDriver()
    service = world(2, per_rack=2, driver=driver)
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, times=3))
    one_per_rack = '[[campaign.budget.by]]\nlabel = "rack"\nmax = 1\n'
    for name, host in (("kernel", "h00"), ("bios", "h01")):
        file = file_of(one_per_rack + ONE_STAGE, name=name)
        start_text(service, file.replace("all = true", f'host = ["{host}"]'))
        service.advance("2h")
    assert campaign(service, "kernel").failed_hosts == ("h00",)
    assert in_work(service) == []
    planned = next(
        operation for operation in service.operations() if operation.host == "h01"
    )
    (reason,) = service.explain(planned.operation_id)
    assert reason == (
        "campaign bios: 1 of 1 hosts of rack=r0 are in flight, with a failed host that "
        "`forewarn campaign list` shows"
    )
    if way_out == "skip":
        steer(service, lambda work: campaigns.skip(work, "kernel", ["h00"]))
    else:
        steer(service, lambda work: campaigns.abort(work, "kernel"))
    service.advance("2m")
    assert in_work(service) == ["h01"]


def test_hosts_that_are_away_for_any_cause_count() -> None:
    service = world(10, per_rack=10)
    start(
        service,
        f'[campaign.budget]\nin_flight = 10\nunavailable = "30%"\n{ONE_STAGE}',
    )
    service.order(lambda work: failures.fail_host(work, "h09"))
    service.order(lambda work: cordons.cordon(work, "h08"), actor="alice")
    service.advance("20m")
    assert len([host for host in in_work(service) if host < "h08"]) == 1
    service.advance("2h")
    assert len([host for host in in_work(service) if host < "h08"]) <= 1
    service.order(
        lambda work: cordons.open_host(work, "h08", by_all=True), actor="alice"
    )
    service.advance("30m")
    assert len([host for host in in_work(service) if host != "h09"]) == 2
    service.order(lambda work: failures.restore_host(work, "h09"))
    service.advance("1d")
    assert campaign(service).state is CampaignState.DONE


def test_a_campaign_says_that_too_many_hosts_are_away() -> None:
    service = world(4, per_rack=4)
    service.order(lambda work: cordons.cordon(work, "h03"), actor="alice")
    start(service, f"[campaign.budget]\nin_flight = 2\nunavailable = 1\n{ONE_STAGE}")
    assert in_work(service) == []
    assert waits_for(service) == (
        "campaign bios: 1 of 1 hosts are away for any cause (host h03 is cordoned: "
        "`forewarn host open h03 --all-owners`)"
    )
    service.order(lambda work: cordons.open_host(work, "h03", by_all=True), actor="bob")
    service.advance("2m")
    assert len(in_work(service)) == 1


def test_a_skipped_host_keeps_its_place_and_says_which_command_frees_it() -> None:
    driver = SimulatedDriver()
    service = world(4, per_rack=4, driver=driver)
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, times=3))
    terms = "unavailable = 1\n[campaign.tolerance]\nfailures = 2\nin_a_row = 2\n"
    start(service, f"[campaign.budget]\nin_flight = 2\n{terms}{ONE_STAGE}")
    while not campaign(service).failed:
        service.advance("1m")
    (host,) = campaign(service).failed_hosts
    service.advance("1h")
    # A failed host of a campaign is freed by the campaign, not by opening it.
    assert "host open" not in waits_for(service)
    steer(service, lambda work: campaigns.skip(work, "bios", [host]))
    service.advance("1h")
    assert in_work(service) == []
    assert waits_for(service).endswith(
        f"(host {host} is cordoned: `forewarn host open {host} --all-owners`)"
    )
    service.order(lambda work: cordons.open_host(work, host, by_all=True), actor="bob")
    service.advance("2m")
    assert len(in_work(service)) == 1


def test_vms_of_a_tenant_have_a_budget() -> None:
    service = world(12, per_rack=12, tenants=2)
    start(service, f"[campaign.budget]\nin_flight = 12\ntenant_vms = 4\n{ONE_STAGE}")
    seen = play(service)
    assert max(map(len, seen)) == 4
    for hosts in seen:
        vms = Counter(int(host.removeprefix("h")) % 2 for host in hosts)
        assert max(vms.values(), default=0) <= 2


def test_a_percentage_of_a_group_reads_the_same_in_a_group_of_any_size() -> None:
    def rows_read(hosts: int) -> int:
        service = world(hosts, per_rack=hosts)
        start(service, ONE_STAGE)
        rows = Counter[str]()
        used = service.read(
            lambda reader: campaign_gate.group_use(
                Counted(reader, rows).reader, campaign(service), "10%", "rack=r0"
            )
        )
        assert used.most == hosts // 10
        return rows.total()

    assert rows_read(20) == rows_read(200) < 10


def test_a_percentage_follows_hosts_that_come_go_and_change_their_rack() -> None:
    service = world(20, per_rack=20)

    def sizes() -> tuple[int, int]:
        return service.read(
            lambda reader: (
                tallies.counted(reader, hosts_at("rack=r0")),
                tallies.counted(reader, hosts_at("rack=r9")),
            )
        )

    assert sizes() == (20, 0)
    more = '[[host]]\nname = "x1"\nrack = "r0"\n[[host]]\nname = "x2"\nrack = "r9"\n'
    small = "\n".join(lines_of(20, per_rack=20))
    service.apply_fleet(small + "\n" + more)
    assert sizes() == (21, 1)
    moved = more.replace('"x1"\nrack = "r0"', '"x1"\nrack = "r9"')
    service.apply_fleet(small + "\n" + moved)
    assert sizes() == (20, 2)
    service.apply_fleet(small)
    assert sizes() == (20, 0)
