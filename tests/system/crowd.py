"""A crowd of clients that sends all kinds of requests and records all responses.

VMs poll and approve, operators send all kinds of requests and fleet files, and hosts
fail. The service can be killed meanwhile. `aftermath` checks the recorded responses.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from random import Random
from typing import Any

from forewarn.clock import SystemClock
from forewarn.instants import Micros
from tests.support.processes import PATIENCE_SECONDS, Serving

HOSTS = tuple(f"h{number}" for number in range(8))
"""Hosts that are maintained and that fail."""
QUIET = "h8"
"""The host of VMs that are added and deleted."""
SOLOS = ("solo_0", "solo_1")
WEBS = tuple(f"web_{number}" for number in range(6))
DATABASES = tuple(f"db_{number}" for number in range(4))
VMS = (*WEBS, *DATABASES, *SOLOS)

POLLERS, APPROVERS, OPERATORS = 3, 2, 2

BREATH_SECONDS = 0.004
"""Pause between two requests of one client: the service must be busy, not starved."""

ANSWERS = frozenset({200, 201, 404, 409})
"""Allowed statuses of a request; no request here is malformed."""

ORDER = ("Scheduled", "Started", "gone")


def address_of(vm: str) -> str:
    """Return the source address of the VM."""
    return f"127.0.2.{VMS.index(vm) + 1}"


def fleet(lives: int, *, extra: bool = False, tag: str = "") -> str:
    """Return the fleet file of the life number `lives`, with VMs to delete."""
    text = (
        '[[scope]]\nname = "web"\nkind = "availability-set"\n'
        '[[scope]]\nname = "db"\nkind = "scale-set"\n'
        'terminate_notice = "5m"\nos_image_notice = "15m"\n'
    )
    text += "".join(f'[[host]]\nname = "{name}"\n' for name in (*HOSTS, QUIET))
    for number, name in enumerate(WEBS):
        text += _vm(name, f"h{number % 3}", scope="web", domain=number % 3, tag=tag)
    for number, name in enumerate(DATABASES):
        text += _vm(name, f"h{3 + number % 2}", scope="db", domain=number % 2)
    text += _vm("solo_0", "h0") + _vm("solo_1", "h5")
    for life in range(lives + 1):
        text += _vm(f"spot_{life}", QUIET) + "spot = true\n"
        text += _vm(f"lost_{life}", QUIET) + _vm(f"left_{life}", QUIET)
    return text + (_vm(f"extra_{lives}", QUIET) if extra else "")


def _vm(
    name: str, host: str, *, scope: str = "", domain: int = 0, tag: str = ""
) -> str:
    text = f'[[vm]]\nname = "{name}"\nhost = "{host}"\n'
    if scope:
        text += f'scope = "{scope}"\nfault_domain = {domain}\n'
    if name in VMS:
        text += f'address = "{address_of(name)}"\n'
    return text + (f'tags = {{ build = "{tag}" }}\n' if tag else "")


@dataclass(slots=True)
class Guest:
    """The events that one VM has seen."""

    incarnation: int = 0
    body: bytes = b""
    statuses: dict[str, str] = field(default_factory=dict[str, str])
    """The latest status of each event."""

    def hear(self, vm: str, body: bytes) -> None:
        """Check a document against all earlier ones (2.1, 2.6, 2.10)."""
        document = json.loads(body)
        number = document["DocumentIncarnation"]
        assert number >= self.incarnation, (
            f"{vm}: the incarnation fell from {self.incarnation} to {number}"
        )
        if number == self.incarnation:
            assert body == self.body, f"{vm}: two documents {number}"
        shown = {event["EventId"]: event["EventStatus"] for event in document["Events"]}
        for event, status in shown.items():
            before = self.statuses.get(event, status)
            assert ORDER.index(before) <= ORDER.index(status), (
                f"{vm}: {event} was {before} and is {status}"
            )
        gone = dict.fromkeys(self.statuses.keys() - shown.keys(), "gone")
        self.statuses |= gone | shown
        self.incarnation, self.body = number, body

    def scheduled(self) -> list[str]:
        """Return the events that may be approved."""
        # Another thread may be writing, so copy it at once.
        return [name for name, at in tuple(self.statuses.items()) if at == "Scheduled"]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """An approval that was answered with 200."""

    vm: str
    event_id: str
    at: Micros
    """The time of the response."""


class Crowd:
    """All clients; they outlive the service."""

    allowed = ANSWERS
    may_wait = frozenset[int]()
    """Statuses that ask a VM to try again."""
    breath = BREATH_SECONDS

    def __init__(self, seed: int) -> None:
        """Start without clients; `meet` starts them."""
        self.guests = {vm: Guest() for vm in VMS}
        self.acknowledged: list[Acknowledged] = []
        self.requests: set[str] = set()
        """Requests answered with 201."""
        self.given: Counter[str] = Counter()
        """Accepted requests, by verb."""
        self.strange: list[str] = []
        """Invalid responses and broken guarantees."""
        self.lives = 0
        self._seed = seed
        self._clock = SystemClock()
        self.ahead: Micros = 0
        """Maximum lead of the service's wall clock."""
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._links: list[HTTPConnection] = []

    # One life of the service

    def meet(self, service: Serving) -> None:
        """Start the clients of a service."""
        shared, operators = (
            service.urls[name].removeprefix("http://")
            for name in (_SHARED, "operators")
        )
        self.begin(shared, operators)

    def begin(self, shared: str, operators: str) -> None:
        """Start the clients of two listeners."""
        self._over.clear()
        work: list[Callable[[Random], None]] = [
            lambda rng, part=VMS[number::POLLERS]: self._poll(rng, shared, part)
            for number in range(POLLERS)
        ]
        work += [lambda rng: self._approve(rng, shared)] * APPROVERS
        work += [lambda rng: self._order(rng, operators)] * OPERATORS
        work.append(lambda rng: self._apply(rng, operators))
        for number, job in enumerate(work):
            rng = Random(f"{self._seed} {self.lives} {number}")
            thread = threading.Thread(target=self._ask, args=(job, rng))
            self._threads.append(thread)
            thread.start()

    def part(self) -> None:
        """Stop the clients."""
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "a client got no response"
        for link in self._links:
            link.close()
        self._threads.clear()
        self._links.clear()
        self.lives += 1

    def _ask(self, work: Callable[[Random], None], rng: Random) -> None:
        try:
            work(rng)
        except (OSError, HTTPException):
            return  # the service has died: requests without response guarantee nothing
        except Exception as error:  # noqa: BLE001 - told by the test, not the thread
            self.strange.append(f"{type(error).__name__}: {error}")

    def _breathe(self, seconds: float = 0) -> bool:
        """Wait a little; return whether to continue."""
        return not self._over.wait(seconds or self.breath)

    def _link(self, listener: str, source: str = "") -> HTTPConnection:
        link = HTTPConnection(
            listener,
            timeout=PATIENCE_SECONDS,
            source_address=(source, 0) if source else None,
        )
        self._links.append(link)
        return link

    # VMs

    def _poll(self, rng: Random, listener: str, vms: Sequence[str]) -> None:
        links = {vm: self._link(listener, address_of(vm)) for vm in vms}
        while self._breathe():
            vm = rng.choice(vms)
            status, body = _http(links[vm], "GET", _PATH)
            if status == 200:
                self.guests[vm].hear(vm, body)
            elif status not in self.may_wait:
                self.strange.append(f"{vm} was answered {status}: {body[:200]!r}")

    def _approve(self, rng: Random, listener: str) -> None:
        links = {vm: self._link(listener, address_of(vm)) for vm in VMS}
        while self._breathe(rng.uniform(0, 0.05)):
            vm = rng.choice(VMS)
            for event in self.guests[vm].scheduled():
                body = json.dumps({"StartRequests": [{"EventId": event}]})
                status, _ = _http(links[vm], "POST", _PATH, body)
                if status == 200:
                    at = self._clock.now() + self.ahead
                    self.acknowledged.append(Acknowledged(vm, event, at))

    # Operators

    def _order(self, rng: Random, listener: str) -> None:
        link = self._link(listener)
        down: list[str] = []
        while self._breathe(rng.uniform(0, 0.06)):
            verb, body = self._choose(rng, link, down)
            status, answer = _http(link, "POST", f"/v1/{verb}", json.dumps(body))
            if status not in self.allowed:
                self.strange.append(f"{verb} {body} was answered {status}: {answer!r}")
            elif status < 300:
                self.given[verb] += 1
                if status == 201:
                    self.requests.add(json.loads(answer)["request"])

    def _choose(
        self, rng: Random, link: HTTPConnection, down: list[str]
    ) -> tuple[str, dict[str, Any]]:
        """Return a request, which is usually accepted and sometimes not."""
        life, host, vm = self.lives, rng.choice(HOSTS), rng.choice(VMS)
        if down and rng.random() < 0.3:
            return "restore", {"names": [down.pop()]}
        impact = rng.choice(("freeze", "live-migrate", "reboot", "redeploy"))
        fails = rng.choice((host, vm))
        orders: list[tuple[str, dict[str, Any]]] = [
            ("maintain", {"hosts": [host], "impact": impact}),
            ("reboot", {"vms": [vm]}),
            ("redeploy", {"vms": [rng.choice((vm, f"left_{life}"))]}),
            ("evict", {"vms": [f"spot_{life}"]}),
            ("terminate", {"vms": [f"lost_{life}", f"left_{life}"]}),
            ("upgrade-os", {"vms": [rng.choice(DATABASES)]}),
            ("reimage", {"vms": [rng.choice(DATABASES), rng.choice(SOLOS)][:1]}),
            ("predict-failure", {"hosts": [host], "in": "2s"}),
            ("fail", {"names": [fails]}),
            ("cancel", {"names": [self._any_operation(rng, link)]}),
        ]
        verb, body = rng.choice(orders)
        if verb == "fail":
            down.append(fails)
        return verb, body

    def _any_operation(self, rng: Random, link: HTTPConnection) -> str:
        status, body = _http(link, "GET", "/v1/operations?limit=50")
        operations = json.loads(body)["operations"] if status == 200 else []
        names = [operation["operation"] for operation in operations]
        return rng.choice(names or ["op-0000000000"])

    def _apply(self, rng: Random, listener: str) -> None:
        link = self._link(listener)
        while self._breathe(rng.uniform(0.02, 0.3)):
            text = fleet(self.lives, extra=rng.random() < 0.5, tag=rng.choice("abc"))
            body = json.dumps({"text": text})
            status, answer = _http(link, "POST", "/v1/fleet/apply", body)
            if status not in self.allowed:
                self.strange.append(f"apply was answered {status}: {answer!r}")
            self.given["apply"] += status == 200


_SHARED = "VMs by source address"
_PATH = "/metadata/scheduledevents?api-version=2020-07-01"


def _http(
    link: HTTPConnection, method: str, path: str, body: str = ""
) -> tuple[int, bytes]:
    headers = {"Metadata": "true", "Content-Type": "application/json"}
    link.request(method, path, body or None, headers)
    answer = link.getresponse()
    return answer.status, answer.read()
