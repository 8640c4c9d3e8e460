"""A simulated campaign follows the rules of the service, on a copy of its fleet."""

import json
import time  # noqa: TID251 - it measures processor time
from dataclasses import replace
from typing import Any

import pytest

from forewarn.campaigns.durations import Sample
from forewarn.campaigns.simulated import Assumptions
from forewarn.campaigns.text import CampaignText
from forewarn.control.gateway import BusyError
from forewarn.control.requests import brake, cordons
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import HOUR, MINUTE, Micros, parse_instant
from forewarn.protocol.errors import RefusedError
from forewarn.service.simulation.fleet_copy import FleetCopy, copy_fleet
from forewarn.service.simulation.play import SimulationRequest, simulated
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import every
from tests.support import campaigns
from tests.support.worlds import START, World

DOMAINS = 10


def fleet(hosts: int, *, per_host: int = 3) -> str:
    """Return hosts with the VMs of scopes over ten fault domains, one on each host."""
    per_domain = hosts // DOMAINS
    scopes = per_domain * per_host
    lines = [f'[[tenant]]\nname = "t{number}"' for number in range(4)]
    lines += [
        f'[[scope]]\nname = "s{number}"\ntenant = "t{number % 4}"\n'
        'kind = "availability-set"'
        for number in range(scopes)
    ]
    lines += [
        f'[[host]]\nname = "h{number:04d}"\nrack = "r{number // per_domain}"\ncapacity = 60'
        for number in range(hosts)
    ]
    lines += [
        f'[[vm]]\nname = "s{scope}_{domain}"\nscope = "s{scope}"\n'
        f'host = "h{domain * per_domain + scope % per_domain:04d}"\nfault_domain = {domain}'
        for scope in range(scopes)
        for domain in range(DOMAINS)
    ]
    return "\n".join(lines) + "\n"


def world_of(fleet: str, *, start: Micros = START) -> World:
    return World(store=MemoryStore, driver=SimulatedDriver(), fleet=fleet, start=start)


def text_of(more: str, *, impact: str = "reboot") -> CampaignText:
    text = campaigns.file_of(more, impact=impact)
    return CampaignText(name="campaign.toml", text=text)


def copied_of(world: World, text: CampaignText) -> FleetCopy:
    return world.read(lambda reader: copy_fleet(reader, text))


def simulation(
    world: World,
    more: str = "",
    *,
    impact: str = "reboot",
    approve: float | None = 0.7,
    failures: float = 0.0,
    seed: int = 1,
    now: Micros = 0,
    past: tuple[Sample, ...] = (),
) -> Any:
    request = SimulationRequest(
        text=text_of(more, impact=impact),
        assumed=Assumptions(approve=approve, failures=failures, seed=seed),
        policy=Policy(),
        now=now or world.now,
        hosts_max=1_000,
    )
    copied = replace(copied_of(world, request.text), past=past)
    return json.loads(simulated(copied, request))


PACE = """
[campaign.budget]
in_flight = 4
[[campaign.stage]]
hosts = 1
soak = "1h"
approval = true
[[campaign.stage]]
hosts = "10%"
soak = "2h"
"""


def test_campaign_is_played_to_its_end_and_changes_nothing() -> None:
    world = world_of(fleet(20))
    before = world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
    report = simulation(world, PACE)
    assert world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT))) == before
    assert world.operations() == []
    assert [report["state"], report["done"], report["left"]] == ["Done", 20, 0]
    assert [stage["done"] for stage in report["stages"]] == [1, 1, 18]
    # Each stage begins after the soak of the one before.
    first, second, third = report["stages"]
    assert gap(first["ends"], second["begins"]) == HOUR
    assert gap(second["ends"], third["begins"]) == 2 * HOUR
    # Only two hosts at once have no scope in common.
    budget = report["budgets"][0]
    assert [budget["kind"], budget["used"], budget["most"]] == ["in-flight", 2, 4]
    (reboots,) = report["interruptions"]
    assert [reboots["kind"], reboots["vms"], reboots["still_down"]] == ["reboot", 60, 0]
    assert sum(period["done"] for period in report["periods"]) == 20
    assert (report["reason"], report["has_windows"]) == ("CVE-2026-1234", False)


def test_overlapping_notices_shorten_the_campaign() -> None:
    world = world_of(fleet(20))
    alone, together = (
        simulation(
            world,
            f"{campaigns.ONE_STAGE}[campaign.budget]\nin_flight = 8\n"
            f'overlap_notice = {overlap}\n[campaign.expect]\ntypical = "30m"\nslow = "30m"\n',
            approve=0,
        )
        for overlap in (0, 1)
    )
    assert [alone["done"], together["done"]] == [20, 20]
    for report, most in ((alone, 1), (together, 2)):
        budget = report["budgets"][-1]
        assert [budget["kind"], budget["used"]] == ["overlap-notice", most]
        assert budget["most"] == most
    began = alone["begins"]
    assert gap(began, together["ends"]) < 0.9 * gap(began, alone["ends"])
    for report in (alone, together):
        forecast = gap(began, report["forecast_ends"])
        assert abs(gap(began, report["ends"]) - forecast) <= forecast / 10


def noticed(minutes: int) -> Sample:
    """Return a host of past work whose tenants approved after so many minutes."""
    return Sample(
        at=0, model="", work=10 * MINUTE, notice=minutes * MINUTE, has_vms=True
    )


def test_tenants_approve_as_fast_as_they_approved_past_work() -> None:
    world = world_of(fleet(20))
    fast, slow = (
        simulation(world, PACE, approve=None, past=(noticed(minutes),) * 10)
        for minutes in (3, 15)
    )
    for report in (fast, slow):
        assert [report["approve_percent"], report["approvals_measured"]] == [None, 10]
    assert fast["notice"]["approved_hosts"] == fast["notice"]["hosts"] == 20
    assert fast["notice"]["used_percent"] == 20
    # No VM approved before the end of the notice.
    assert slow["notice"]["approved_hosts"] == 0
    assert slow["notice"]["used_percent"] == 100
    explicit = simulation(world, PACE, approve=1, past=(noticed(15),) * 10)
    assert [explicit["approve_percent"], explicit["approvals_measured"]] == [100, 0]
    assert explicit["notice"]["approved_hosts"] == 20
    usual = simulation(world, PACE, approve=None, past=(noticed(15),) * 9)
    assert [usual["approve_percent"], usual["approvals_measured"]] == [70, 0]


def gap(begins: str, ends: str) -> Micros:
    return parse_instant(ends) - parse_instant(begins)


def test_equal_seeds_give_equal_results() -> None:
    world = world_of(fleet(20))
    first = simulation(world, PACE, failures=0.1, seed=5)
    assert simulation(world, PACE, failures=0.1, seed=5) == first
    other = simulation(world, PACE, failures=0.1, seed=6)
    assert other["hosts"] != first["hosts"]


def test_approvals_shorten_the_notice() -> None:
    world = world_of(fleet(20))
    silent = simulation(world, PACE, approve=0)
    quick = simulation(world, PACE, approve=1)
    assert silent["notice"]["used_percent"] == 100
    assert silent["notice"]["approved_hosts"] == 0
    assert quick["notice"]["used_percent"] < 95
    assert quick["notice"]["approved_hosts"] == 20
    assert quick["seconds"] < silent["seconds"]


def test_failing_canary_halts_the_campaign() -> None:
    world = world_of(fleet(20))
    report = simulation(world, PACE, failures=1)
    assert [report["state"], report["done"], report["left"]] == ["Halted", 0, 19]
    assert len(report["failed"]) == 1
    assert report["failed"][0] in report["halted"]
    # The failed call leaves its VMs down.
    assert (
        sum(interruption["still_down"] for interruption in report["interruptions"]) == 3
    )


def test_tolerated_failure_does_not_end_the_campaign() -> None:
    world = world_of(fleet(40))
    report = simulation(
        world,
        campaigns.ONE_STAGE
        + "[campaign.budget]\nin_flight = 4\n[campaign.tolerance]\nfailures = 40\n"
        "in_a_row = 40\nvms_down = 1000\n",
        failures=0.1,
        seed=3,
    )
    assert report["failed"]
    assert report["halted"] is None
    ended = report["done"] + len(report["failed"])
    # Hosts that share scopes with a failed one cannot begin while its VMs are down.
    assert report["is_stuck"] == (ended < 40)
    assert report["left"] == 40 - ended


def test_host_whose_steps_fail_is_counted_in_its_night_and_frees_its_scopes() -> None:
    world = world_of(fleet(40))
    report = simulation(
        world,
        campaigns.ONE_STAGE
        + "[campaign.budget]\nin_flight = 4\n[campaign.tolerance]\nfailures = 40\n"
        "in_a_row = 40\n[campaign.steps]\n"
        'work = { step = "work" }\nverify = { step = "verify" }\n',
        impact="live-migrate",
        failures=0.1,
        seed=3,
    )
    failed = len(report["failed"])
    assert failed >= 2
    assert [report["left"], report["done"]] == [0, 40 - failed]
    assert sum(period["failed"] for period in report["periods"]) == failed
    # The VMs are in service, and the host keeps its place in the other budgets only.
    notice = report["budgets"][-1]
    assert [notice["kind"], notice["used"], notice["most"]] == ["overlap-notice", 1, 1]


WINDOW = """
[campaign.budget]
in_flight = 2
[[campaign.stage]]
hosts = "100%"
[[campaign.window]]
start = "01:30"
length = "3h"
timezone = "Europe/Berlin"
[campaign.expect]
typical = "30m"
slow = "45m"
"""


def test_night_of_a_clock_change_is_as_long_as_the_others() -> None:
    # On 2030-03-31, the clocks skip the hour from 02:00 to 03:00.
    world = world_of(fleet(40), start=parse_instant("2030-03-30T12:00:00Z"))
    report = simulation(world, WINDOW)
    assert report["state"] == "Done"
    opens = [period["opens"] for period in report["periods"]]
    assert opens[:2] == ["2030-03-31T00:30:00Z", "2030-03-31T23:30:00Z"]
    assert {gap(period["opens"], period["closes"]) for period in report["periods"]} == {
        3 * HOUR
    }
    done = [period["done"] for period in report["periods"]]
    assert sum(done) == 40
    assert done[0] >= 5
    for host in report["hosts"]:
        starts = parse_instant(host["starts"])
        assert any(
            parse_instant(period["opens"])
            <= starts
            <= parse_instant(period["closes"]) - 45 * MINUTE
            for period in report["periods"]
        ), host


def test_end_is_near_the_forecast_of_the_plan_if_nothing_fails() -> None:
    # The forecast plays typical hosts without approvals. A simulation has slow hosts too,
    # and waits for whole seconds; both admit by the same limits.
    world = world_of(fleet(40))
    report = simulation(
        world,
        PACE + '[campaign.expect]\ntypical = "30m"\nslow = "30m"\n',
        approve=0,
    )
    forecast = gap(report["begins"], report["forecast_ends"])
    assert abs(gap(report["begins"], report["ends"]) - forecast) < 0.1 * forecast


def test_migrations_of_a_host_share_its_time() -> None:
    world = world_of(fleet(20))
    report = simulation(world, PACE, impact="live-migrate", approve=0)
    assert [report["state"], report["done"]] == ["Done", 20]
    assert report["moves"]["vms"] > 0
    for host in report["hosts"]:
        if host["vms"]:
            assert gap(host["starts"], host["ends"]) <= 91 * MINUTE, host


NIGHTS = """
[[campaign.window]]
start = "22:00"
length = "1h"
timezone = "UTC"
"""


@pytest.mark.parametrize("windows", ["", NIGHTS])
def test_stuck_campaign_tells_why_its_hosts_wait(windows: str) -> None:
    """The reason is not that no window is open at its last progress."""
    # VMs of a failed host are down, and other fault domains of their scopes must wait.
    world = world_of(fleet(20))
    report = simulation(
        world,
        campaigns.ONE_STAGE
        + "[campaign.tolerance]\nfailures = 9\nin_a_row = 9\n"
        + windows,
        failures=0.1,
    )
    assert [report["state"], report["is_stuck"]] == ["Running", True]
    assert report["left"] > 0
    assert report["waits"]
    for wait in report["waits"]:
        assert any("only one at a time is allowed" in why for why in wait["reasons"])
    # The end is that of the last progress.
    assert report["ends"] == max(host["ends"] for host in report["hosts"])


def test_what_the_service_does_now_is_left_out_and_told() -> None:
    world = world_of(fleet(20))
    campaigns.start(world, name="other")
    world.order(brake.put_on, reason="calm")
    report = simulation(world, PACE)
    assert report["done"] == 20
    warnings = "\n".join(report["warnings"])
    assert "other campaigns are not simulated: other" in warnings
    assert "20 open operations are not simulated" in warnings
    assert "the brake is on" in warnings


def test_cordons_and_states_are_copied() -> None:
    world = world_of(fleet(20))
    world.order(lambda work: cordons.cordon(work, "h0003"), reason="disk")
    copied = copied_of(world, text_of("")).store()
    hosts = copied.read(lambda reader: list(every(reader, kinds.ALL_HOSTS)))
    assert [host.name for host in hosts if host.cordons] == ["h0003"]
    assert copied.read(lambda reader: list(every(reader, kinds.ALL_TOKENS))) == []


def test_invalid_selection_is_refused() -> None:
    world = world_of(fleet(10))
    nowhere = text_of("").text.replace("all = true", 'rack = "none"')
    request = SimulationRequest(
        text=CampaignText(name="c.toml", text=nowhere),
        assumed=Assumptions(),
        policy=Policy(),
        now=world.now,
        hosts_max=0,
    )
    with pytest.raises(RefusedError, match="no host"):
        simulated(copied_of(world, request.text), request)


def test_simulation_ends_with_the_service() -> None:
    world = world_of(fleet(10))
    request = SimulationRequest(
        text=text_of(PACE),
        assumed=Assumptions(),
        policy=Policy(),
        now=world.now,
        hosts_max=0,
    )
    with pytest.raises(BusyError, match="the service is stopping"):
        simulated(copied_of(world, request.text), request, is_over=lambda: True)


@pytest.mark.long
@pytest.mark.timeout(1_800)  # it measures processor time, of which there can be little
def test_five_nights_of_a_thousand_hosts_take_a_minute() -> None:
    world = world_of(fleet(1_000, per_host=15))
    request = SimulationRequest(
        text=text_of(
            PACE.replace("in_flight = 4", "in_flight = 30")
            + '[[campaign.window]]\nstart = "22:00"\nlength = "7h"\n'
            # Some failures must not halt it before its last night.
            + "[campaign.tolerance]\nfailures = 40\nin_a_row = 40\nvms_down = 1000\n"
        ),
        assumed=Assumptions(failures=0.001),
        policy=Policy(),
        now=world.now,
        hosts_max=0,
    )
    copied = copied_of(world, request.text)
    begins = time.thread_time()
    document = json.loads(simulated(copied, request))
    assert time.thread_time() - begins < 120  # a busy machine; a quiet core takes half
    assert document["vm_count"] == 15_000
    failed = len(document["failed"])
    # The VMs of a failed host stay down, so hosts with VMs of the same scopes, which have
    # the same last digits here, wait for it.
    digits = {failure[-2:] for failure in document["failed"]}
    assert {wait["host"][-2:] for wait in document["waits"]} <= digits
    assert document["done"] + failed + document["left"] == 1_000
    assert document["left"] <= 10 * failed
    nights = [period["done"] + period["failed"] for period in document["periods"]]
    # Every other host was done in a night. Without the windows, one would be enough.
    assert sum(nights) == 1_000 - document["left"]
    assert len([hosts for hosts in nights if hosts]) >= 5
