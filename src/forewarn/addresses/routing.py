"""The routes of a plan: how replies of the service find their guest.

Every route and rule carries a protocol number of its own, so the kernel itself
records what is ours: `changes` compares it with what is wanted, and `undo` wants
nothing. No file can be lost or disagree.

These only make the service reachable. What keeps guests apart is the ruleset.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from forewarn.addresses.model import SERVICE, Plan, Port, Way

PROTOCOL = 169
"""Of our routes and rules, in `ip route show proto 169`: nobody else's number in
iproute2's list, and the one that is easily remembered here."""

LOCAL = "local"
"""The kernel's table of addresses that are the host's own."""

Command: TypeAlias = tuple[str, ...]
"""The words of a call of `ip`."""


class Route(NamedTuple):
    """A route."""

    table: str
    destination: str
    devices: Command
    """Where it leads; several where several guests have one address."""
    kind: str = ""
    """`local`, or empty for one that leads to a guest."""

    @property
    def words(self) -> Command:
        """Return it as `ip route` takes it."""
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
    """The listener whose replies are meant; 0: every one's."""

    @property
    def words(self) -> Command:
        """Return it as `ip rule` takes it."""
        port = ("ipproto", "tcp", "sport", str(self.sport)) if self.sport else ()
        words = ("pref", str(self.priority), "from", SERVICE, *port)
        return (*words, "lookup", self.table, "protocol", str(PROTOCOL))


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """All that is ours, or should be."""

    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()


def wanted(plan: Plan, *, devices: Collection[str] | None = None) -> Routing:
    """Return the routing of a plan, for the devices that are there (None: all)."""
    # A local route makes the address the host's own, as an address on `lo` would,
    # and can be told from others' by its protocol.
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
    # With listeners of their own this leads no reply. But a host that filters by
    # reverse path answers a guest's ARP only where some route leads back to it.
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


def changes(present: Routing, wish: Routing) -> tuple[Command, ...]:
    """Return the calls of `ip` that make what is present what is wished."""
    return (
        *(
            ("rule", "del", *rule.words)
            for rule in present.rules
            if rule not in wish.rules
        ),
        *(
            ("route", "del", *route.words)
            for route in present.routes
            if route not in wish.routes
        ),
        *(
            ("route", "replace", *route.words)
            for route in wish.routes
            if route not in present.routes
        ),
        *(
            ("rule", "add", *rule.words)
            for rule in wish.rules
            if rule not in present.rules
        ),
    )


def read_routing(
    routes: Sequence[Mapping[str, Any]], rules: Sequence[Mapping[str, Any]]
) -> Routing:
    """Return what is ours of the JSON of `ip route` and `ip rule`.

    The routes are of `ip -j route show table all proto 169`; the rules are all.
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
