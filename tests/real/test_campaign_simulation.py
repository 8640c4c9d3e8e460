"""A campaign on a running service takes as long as its simulation said before.

The service runs in processes and in real time, with the simulated driver. Tenants approve
with requests of their VMs, when the chances of the simulation say so. A first campaign
gives the service measured durations.
"""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from forewarn.campaigns.simulated import Assumptions, Chances
from forewarn.clock import SystemClock
from forewarn.instants import SECOND, Micros, parse_instant
from tests.support.processes import Serving, eventually

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(480)]

HOSTS = 20
"""Hosts with a VM each; an empty one has room for the VMs of the first."""

APPROVE, SEED = 0.5, 7

NEAR = 0.1
"""Maximum difference of the makespans, as a part of the real one."""

LOOK_SECONDS = 0.2
"""Pause between two looks at the events, which is short beside a notice of 6 s."""

SETTINGS = """
[timing]
speed = 30
freeze_notice = "3m"
recovery = "1m"
verify_settle = "30s"
[policy]
verify_times = 2
[driver]
kind = "simulated"
[driver.simulated]
live_migrate = "30s"
[host_step.flash]
program = ["/bin/false"]
[host_step.flashed]
program = ["/bin/false"]
"""
"""A notice takes 6 s, a move 1 s, and a host step 2 s. The simulated driver runs no
program, so that these times are the same on a busy machine."""

FILE = """
[campaign]
name = "{name}"
reason = "CVE-2026-1234"
impact = "live-migrate"
select = {{ all = true }}
[campaign.steps]
work = {{ step = "flash" }}
verify = {{ step = "flashed" }}
[campaign.budget]
in_flight = 6
[campaign.expect]
typical = "20m"
slow = "30m"
{stages}
"""

ONE_STAGE = '[[campaign.stage]]\nhosts = "100%"\n'
STAGES = """
[[campaign.stage]]
hosts = 1
soak = "10m"
[[campaign.stage]]
hosts = "20%"
soak = "5m"
"""


def fleet() -> str:
    """Return hosts with a VM each, every VM in a scope of its own, and an empty host."""
    return '[[host]]\nname = "empty"\ncapacity = 4\n' + "".join(
        f'[[host]]\nname = "h{number}"\ncapacity = 4\n'
        f'[[scope]]\nname = "s{number}"\nkind = "availability-set"\n'
        f'[[vm]]\nname = "vm_{number}"\nhost = "h{number}"\nscope = "s{number}"\n'
        'listen = "127.0.0.1:0"\n'
        for number in range(HOSTS)
    )


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    (tmp_path / "forewarn.toml").write_text(SETTINGS)
    serving = Serving(tmp_path, fleet(), config="forewarn.toml").wait_ready()
    yield serving
    serving.kill()


class Tenants:
    """The VMs of all scopes: each asks for events, and approves at its own time."""

    def __init__(self, service: Serving, chances: Chances | None) -> None:
        """Approve by the chances; None: at once."""
        self._service = service
        self._chances = chances
        self._clock = SystemClock()
        self._due: dict[str, Micros | None] = {}
        """When to approve each event; None: never."""
        self._approved: set[str] = set()

    def look(self) -> None:
        """Approve the events whose time has come."""
        now = self._clock.now()
        for event in self._service.admin("/v1/events")["events"]:
            event_id = event["EventId"]
            if event["EventStatus"] != "Scheduled" or event_id in self._approved:
                continue
            if event_id not in self._due:
                self._due[event_id] = self._when(event)
            due = self._due[event_id]
            if due is not None and due <= now:
                self._approved.add(event_id)
                self._service.approve(event["vms"][0], event_id)

    def _when(self, event: dict[str, Any]) -> Micros | None:
        announced = parse_instant(event["created"])
        if self._chances is None:
            return announced
        if not self._chances.approves(event["scope"]):
            return None
        operation = self._service.admin(f"/v1/operations/{event['operation']}")
        part = self._chances.approval_after(event["scope"], operation["host"])
        notice = parse_instant(operation["not_before"]) - announced
        return announced + round(part * notice)

    @contextmanager
    def awake(self) -> Generator[None]:
        """Look again and again in a thread."""
        is_over = threading.Event()

        def run() -> None:
            while not is_over.wait(LOOK_SECONDS):
                self.look()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def run(service: Serving, name: str, file: dict[str, str]) -> dict[str, Any]:
    """Start a campaign, and return it when it has ended."""
    plan = service.admin("/v1/campaigns/plan", file)
    assert plan["refused_count"] == 0, plan
    service.admin("/v1/campaigns", {**file, "digest": plan["digest"]})
    campaign: dict[str, Any] = {"done": -1}
    while not campaign.get("ended"):
        before = campaign["done"]
        campaign = eventually(
            lambda: service.admin(f"/v1/campaigns/{name}"),
            lambda now, before=before: now["ended"] or now["done"] > before,
            what=f"more than {before} hosts that are done",
        )
        assert not campaign["halted"], campaign
    assert (campaign["state"], campaign["done"]) == ("Done", HOSTS + 1)
    return campaign


def seconds(found: dict[str, Any]) -> float:
    return (parse_instant(found["ended"]) - parse_instant(found["created"])) / SECOND


def file_of(name: str, *, stages: str) -> dict[str, str]:
    text = FILE.format(name=name, stages=stages)
    return {"name": "campaign.toml", "text": text}


def test_a_campaign_takes_as_long_as_its_simulation(service: Serving) -> None:
    for number in range(HOSTS):
        service.document(f"vm_{number}")
    with Tenants(service, None).awake():
        run(service, "first", file_of("first", stages=ONE_STAGE))
    file = file_of("second", stages=STAGES)
    simulated = service.admin(
        "/v1/campaigns/simulate",
        {**file, "hosts_max": 0, "approve_percent": 100 * APPROVE, "seed": SEED},
    )
    assert (simulated["state"], simulated["done"]) == ("Done", HOSTS + 1)
    with Tenants(service, Chances(Assumptions(approve=APPROVE, seed=SEED))).awake():
        taken = seconds(run(service, "second", file))
    assert simulated["seconds"] == pytest.approx(taken, rel=NEAR)
    # The file's own durations would make it several times as long.
    assert simulated["seconds"] < 600
