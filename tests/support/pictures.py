"""A fleet of 240 hosts in the night of a campaign, for pictures of the console.

It is a service on a virtual clock, so that hours of a campaign are there in seconds. Some
tenants approve soon, one never does, and a host fails.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from forewarn.admin.app import create_app
from forewarn.console.pages import console_pages
from forewarn.control.requests.approvals import Approval
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.instants import MINUTE, parse_instant
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.operations import Action
from forewarn.service.admin import AdminServer
from forewarn.service.listening import url_of
from forewarn.service.readings import Watchers
from forewarn.sim.engine import EngineOperatorGateway
from forewarn.sim.loop import LoopThread
from forewarn.store.memory import MemoryStore
from tests.support import campaigns
from tests.support.processes import http
from tests.support.worlds import World

START = parse_instant("2030-01-15T18:55:00Z")
CLUSTERS, RACKS, HOSTS = 5, 8, 6
"""Clusters, racks of each, and hosts of each rack."""
CAPACITY = 10
"""VMs that a host has room for."""
DOMAINS = 4
"""Fault domains of a scope."""

APPROVE_AFTER = {"shop": 1, "bank": 5, "media": 3}
"""Minutes after which the agents of a tenant approve, or up to four minutes later. There is
no agent of `research`, and those of `games` prepare until NotBefore."""
MINUTES = 200
"""Minutes of the campaign before the pictures."""
MINUTES_DOWN = 6
"""Minutes for which a VM has been down then."""
FAULT_MINUTE = 165
FAULT = Fault(
    kind=FaultKind.FAIL,
    step=StepKind.WORK,
    reason="the BIOS image has another checksum",
)
SCOPES: tuple[tuple[str, str, Callable[[int, int], bool]], ...] = (
    ("shop", "shop-web", lambda _cluster, _number: True),
    ("shop", "shop-api", lambda _cluster, number: number % 2 == 0),
    ("bank", "bank-pay", lambda _cluster, _number: True),
    ("bank", "bank-core", lambda _cluster, number: number % 4 == 1),
    ("media", "media-enc", lambda cluster, _number: cluster != 2),
    ("research", "ml-train", lambda cluster, _number: cluster == 5),
    ("games", "game-eu", lambda cluster, number: (cluster + number) % 7 == 0),
)
"""The tenant, the name and the hosts, by cluster and number, of each kind of VM."""

CAMPAIGN = """\
[campaign]
name = "bios-2.19"
reason = "CHG-48213: BIOS 2.19 and microcode"
impact = "live-migrate"
order = "rack"
select = { all = true }
[campaign.steps]
work = { step = "flash", version = "2.19" }
[campaign.budget]
in_flight = 40
by = [{ label = "rack", max = 2 }, { label = "cluster", max = 9 }]
[[campaign.stage]]
hosts = 1
soak = "5m"
[[campaign.window]]
start = "18:30"
length = "8h"
[campaign.tolerance]
failures = 4
"""


def numbers() -> Iterator[tuple[int, int]]:
    """Yield each cluster with the number of each of its hosts."""
    return product(range(1, CLUSTERS + 1), range(1, RACKS * HOSTS + 1))


def fleet() -> str:
    """Return the file of the fleet."""
    lines: list[str] = []
    scopes: set[str] = set()
    for cluster, number in numbers():
        rack, host = divmod(number - 1, HOSTS)
        lines.append(
            f'[[host]]\nname = "n{cluster}{number:02}"\nzone = "{(cluster + 1) // 2}"\n'
            f'cluster = "c{cluster}"\nrack = "c{cluster}-r{rack + 1:02}"\n'
            f"capacity = {CAPACITY}\n"
        )
        for tenant, name, has_vm in SCOPES:
            if not has_vm(cluster, number):
                continue
            # The VMs of a scope are in as many racks, so one of them is a fault domain.
            scope = f"{name}-{cluster}{host + 1}-{rack // DOMAINS}"
            lines.append(
                f'[[vm]]\nname = "{name}-{cluster}{number:02}"\n'
                f'host = "n{cluster}{number:02}"\nscope = "{scope}"\n'
                f"fault_domain = {rack % DOMAINS}\n"
            )
            if scope not in scopes:
                scopes.add(scope)
                lines.append(
                    f'[[scope]]\nname = "{scope}"\ntenant = "{tenant}"\n'
                    'kind = "availability-set"\n'
                )
    lines += [
        f'[[tenant]]\nname = "{tenant}"\n'
        for tenant in sorted({tenant for tenant, *_ in SCOPES})
    ]
    return "\n".join(lines)


class Night:
    """A service whose clock stands, at two hours after the start of a campaign."""

    def __init__(self, loop: LoopThread) -> None:
        """Play the hours; then serve the operator API on `loop`."""
        self.driver = SimulatedDriver(
            impacts={Action.LIVE_MIGRATE: 3 * MINUTE}, step_time=5 * MINUTE
        )
        self.world = World(
            store=MemoryStore,
            driver=self.driver,
            fleet=fleet(),
            policy=Policy(recovery=MINUTE),
            start=START,
        )
        self._play()
        self._watchers = Watchers()
        gateway = EngineOperatorGateway(
            self.world, watchers=self._watchers, wake=self.world.settle
        )
        app = create_app(
            gateway,
            tokens=None,
            version="0.2.0",
            pages=console_pages(),
        )
        self._loop = loop
        self._server = AdminServer(app, grace_seconds=1)
        loop.wait(self._server.start("127.0.0.1:0"))
        self.url = url_of(self._server.listener.address)
        self.ask("/v1/fail", {"names": ["media-enc-415"], "reason": "kernel panic"})
        loop.call(lambda: self._go_on(MINUTES_DOWN))

    def _play(self) -> None:
        """Play the campaign until the moment of the pictures."""
        self._poll()
        campaigns.start_text(self.world, CAMPAIGN)
        self._go_on(FAULT_MINUTE)
        self.driver.inject(FAULT)
        self._go_on(MINUTES - FAULT_MINUTE - MINUTES_DOWN)

    def _go_on(self, minutes: int) -> None:
        for _minute in range(minutes):
            self.world.advance(MINUTE)
            self._approve()
        self._poll()
        self.world.settle()

    def _poll(self) -> None:
        """Let the VMs read their documents."""
        for cluster, number in numbers():
            for tenant, name, has_vm in SCOPES:
                if tenant != "research" and has_vm(cluster, number):
                    self.world.vm(f"{name}-{cluster}{number:02}").get()

    def _approve(self) -> None:
        now = self.world.now
        for event in self.world.live_events():
            after = APPROVE_AFTER.get(event.tenant)
            if after is None or not event.awaits_approval:
                continue
            vm = event.resources[0].vm
            if now - event.created >= (after + int(vm[-2:]) % 5) * MINUTE:
                approval = Approval(vm=vm, event_ids=(event.event_id,))
                self.world.plane.approve([approval], now=now)
        self.world.settle()

    def ask(self, path: str, body: object = None) -> Any:
        """Return what the operator API answers."""
        status, answer = http(self.url + path, body)
        assert status < 300, answer
        return answer

    def close(self) -> None:
        """Stop the service."""
        self._loop.call(self._watchers.close)
        self._loop.wait(self._server.stop())
