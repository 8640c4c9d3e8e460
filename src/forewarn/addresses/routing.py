"""The routes of a plan, which lead replies of the service to the guests.

All routes and rules of forewarn have a special protocol number, so the kernel records
which ones belong to forewarn. `changes` compares them with the plan, and `undo` removes
them all. No separate file is needed.

Routes only make the service reachable. The ruleset isolates guests from each other.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from forewarn.addresses.model import SERVICE, Plan, Port, Way

PROTOCOL = 169
"""Protocol number of forewarn's routes and rules, as in `ip route show proto 169`. No
other program has it in iproute2's list, and it is easy to remember."""

LOCAL = "local"
"""The kernel's table of the host's addresses."""

Command: TypeAlias = tuple[str, ...]
"""The arguments of a call of `ip`."""


class Route(NamedTuple):
    """One route."""

    table: str
    destination: str
    devices: Command
    """Devices of the route; several if several guests have the same address."""
    kind: str = ""
    """`local`, or empty for a route to a guest."""

    @property
    def words(self) -> Command:
        """Return the arguments for `ip route`."""
        kind = (self.kind,) if self.kind else ()
        ours = ("table", self.table, "proto", str(PROTOCOL))
        first, *others = self.devices
        if others:
            hops = [w for device in self.devices for w in ("nexthop", "dev", device)]
            return (*kind, self.destination, *ours, *hops)
        return (*kind, self.destination, "dev", first, *ours)


class Rule(NamedTuple):
    """A rule that sends replies to a table."""

    priority: int
    table: str
    sport: int = 0
    """Port of the listener whose replies it applies to; 0 for all."""

    @property
    def words(self) -> Command:
        """Return the arguments for `ip rule`."""
        port = ("ipproto", "tcp", "sport", str(self.sport)) if self.sport else ()
        selector = ("pref", str(self.priority), "from", SERVICE, *port)
        return (*selector, "lookup", self.table, "protocol", str(PROTOCOL))


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The routes and rules of forewarn: the current or the desired ones."""

    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()


def wanted(plan: Plan, *, devices: Collection[str] | None = None) -> Routing:
    """Return the routing of a plan, for the existing devices (None: all)."""
    # A local route makes the address one of the host's, like an address on `lo`, and
    # its protocol number shows that it belongs to forewarn.
    routes = [Route(LOCAL, SERVICE, ("lo",), LOCAL)]
    rules: list[Rule] = []
    ports = [port for port in plan.ports if devices is None or port.device in devices]
    last = plan.table
    if plan.way is Way.LISTENER:
        for number, port in enumerate(plan.ports, start=plan.table):
            rules.append(Rule(number, str(number), port.listener.port))
            if port in ports:
                routes += _to_guests([port], str(number))
        last += len(plan.ports)
    # With separate listeners, no reply uses this. But a host with a reverse path filter
    # answers a guest's ARP request only if some route leads to the guest.
    rules.append(Rule(last, str(last)))
    routes += _to_guests(ports, str(last))
    return Routing(routes=tuple(routes), rules=tuple(rules))


def _to_guests(ports: Iterable[Port], table: str) -> Iterator[Route]:
    devices: dict[str, dict[str, None]] = {}
    for port in ports:
        for address in port.addresses or ("default",):
            devices.setdefault(address, {})[port.device] = None
    for address, leading in devices.items():
        yield Route(table, address, tuple(leading))


def changes(present: Routing, desired: Routing) -> tuple[Command, ...]:
    """Return the calls of `ip` that change the current routing to the desired one."""
    return (
        *(
            ("rule", "del", *rule.words)
            for rule in present.rules
            if rule not in desired.rules
        ),
        *(
            ("route", "del", *route.words)
            for route in present.routes
            if route not in desired.routes
        ),
        *(
            ("route", "replace", *route.words)
            for route in desired.routes
            if route not in present.routes
        ),
        *(
            ("rule", "add", *rule.words)
            for rule in desired.rules
            if rule not in present.rules
        ),
    )


def read_routing(
    routes: Sequence[Mapping[str, Any]], rules: Sequence[Mapping[str, Any]]
) -> Routing:
    """Return forewarn's routing from the JSON of `ip route` and `ip rule`.

    `routes`: from `ip -j route show table all proto 169`; `rules`: all rules.
    """
    return Routing(
        routes=tuple(
            Route(
                str(route.get("table", "main")),
                str(route["dst"]),
                tuple(str(hop["dev"]) for hop in route.get("nexthops", [route])),
                str(route.get("type", "")),
            )
            for route in routes
        ),
        rules=tuple(
            Rule(int(rule["priority"]), str(rule["table"]), int(rule.get("sport", 0)))
            for rule in rules
            if str(rule.get("protocol")) == str(PROTOCOL)
        ),
    )
