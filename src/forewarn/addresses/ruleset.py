"""The nftables rules of a plan, as text for one `nft -f`.

Rules name interfaces, never what they are at the moment: a tap may come and go
with its guest. What is not listed is refused, so a gap in a plan is silence and
never somebody else's document.

Ports are rewritten without connection tracking: each packet is judged by the
rules of now, two guests with one address cannot be mixed up in a table of
connections, and nothing is left behind by `undo`.
"""

from collections.abc import Iterable, Iterator

from forewarn.addresses.model import (
    LINK_LOCAL,
    SERVICE,
    SERVICE_PORT,
    Plan,
    Port,
)

TABLE = "forewarn"
"""The name of our tables; whoever finds it knows whose they are."""

FAMILIES = ("inet", "bridge")

STRANGERS = "strangers"
"""The counter of what came to the service from no guest of the plan."""

_RAW = -310
"""Before connection tracking (-200) and the usual raw tables (-300)."""
_LAST = 300
"""After everybody who may look at a reply."""
_BRIDGE_FIRST = -300
_BRIDGE_FILTER = -200
_BRIDGE_OUT = 100

_BROADCAST = "ff:ff:ff:ff:ff:ff"
_HANDED_UP = f"ether daddr {_BROADCAST} meta pkttype host"
"""How a frame looks that the bridge table has handed to the host, and no other: the
kernel calls what comes as a broadcast one. So what a guest hides from the bridge
table, as inside two VLAN tags, gets no further."""


def asked(port: Port) -> str:
    """Return the counter of packets that were let through to the service."""
    return f"asked_{port.interface}"


def forged(port: Port) -> str:
    """Return the counter of packets from an address or MAC that is not the guest's.

    From an address outside the file, only packets into the link-local network count:
    no other traffic of such an address is looked at.
    """
    return f"forged_{port.interface}"


def refused(port: Port) -> str:
    """Return the counter of what went elsewhere in the link-local network."""
    return f"refused_{port.interface}"


def ruleset(plan: Plan) -> str:
    """Return the whole text; it replaces what an earlier plan has left."""
    return removal(FAMILIES) + _text([*_inet(plan), *_bridge(plan)])


def removal(families: Iterable[str]) -> str:
    """Return the text that removes our tables of these families."""
    # Named first, so that it may be removed where there is none.
    return "".join(
        f"table {family} {TABLE}\ndelete table {family} {TABLE}\n"
        for family in families
    )


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _inet(plan: Plan) -> Iterator[str]:
    """Routed taps, the host's own stack, and what guards the listeners."""
    bridges = _quoted(port.bridge for port in plan.bridged)
    listeners = _set(str(port.listener.port) for port in plan.ports)
    wild = _set(
        str(port.listener.port) for port in plan.ports if port.listener.is_wildcard
    )
    strange = f'counter name "{STRANGERS}" drop'
    yield f"table inet {TABLE} {{"
    yield from _objects(plan, plan.routed)
    yield from _hook(
        *("prerouting", _RAW),
        plan.routed and f"iifname vmap {_verdicts('jump', 'from', plan.routed)}",
        bridges and "# The bridge table has let it through, and chosen the listener.",
        bridges
        and f"iifname {bridges} {_HANDED_UP} ip daddr {SERVICE} "
        f"tcp dport {listeners} notrack accept",
        f"ip daddr {SERVICE} {strange}",
        wild and "# The listener is at every address: here is no other way to it.",
        wild and f"tcp dport {wild} fib daddr type local {strange}",
    )
    for port in plan.routed:
        yield from _from(port)
    devices = _quoted(port.device for port in plan.ports)
    yield from _hook("forward", -10, *_no_forwarding(devices))
    yield from _hook(
        "output", _RAW, f"ip saddr {SERVICE} tcp sport {listeners} notrack"
    )
    yield from _hook(
        *("postrouting", _LAST),
        plan.routed
        and f"ip saddr {SERVICE} oifname vmap {_verdicts('goto', 'to', plan.routed)}",
        bridges
        and f"ip saddr {SERVICE} oifname {bridges} tcp sport {listeners} accept",
        f"ip saddr {SERVICE} drop",
    )
    for port in plan.routed:
        yield from _to(port)
    yield "}"


def _bridge(plan: Plan) -> Iterator[str]:
    """Ports of bridges, before the bridge forgets which one a frame came from."""
    if not plan.bridged:
        return
    interfaces = _quoted(port.interface for port in plan.bridged)
    yield f"table bridge {TABLE} {{"
    yield from _objects(plan, plan.bridged)
    yield from _hook(
        *("prerouting", _BRIDGE_FIRST),
        f"iifname vmap {_verdicts('jump', 'from', plan.bridged)}",
        "# From here on: ports that are in no plan, such as the uplink.",
        f"arp saddr ip {SERVICE} drop",
        f"arp daddr ip {SERVICE} drop",
        f'ip daddr {SERVICE} counter name "{STRANGERS}" drop',
    )
    for port in plan.bridged:
        yield from _from(port)
    yield from _hook(
        *("forward", _BRIDGE_FILTER),
        "# What is for the service is for this host alone.",
        f"ip daddr {SERVICE} drop",
        f"arp daddr ip {SERVICE} drop",
        *_no_forwarding(interfaces),
    )
    yield from _hook(
        *("output", _BRIDGE_OUT),
        f"oifname != {interfaces} arp saddr ip {SERVICE} drop",
        f"ip saddr {SERVICE} oifname vmap {_verdicts('goto', 'to', plan.bridged)}",
        f"ip saddr {SERVICE} drop",
    )
    for port in plan.bridged:
        yield from _to(port)
    yield "}"


def _objects(plan: Plan, ports: tuple[Port, ...]) -> Iterator[str]:
    addresses = [address for port in plan.ports for address in port.addresses]
    elements = f"elements = {_set(addresses)}" if addresses else ""
    yield from _block("set guests", "type ipv4_addr", elements)
    yield f"\tcounter {STRANGERS} {{ }}"
    for port in ports:
        for name in (asked(port), forged(port), refused(port)):
            yield f"\tcounter {name} {{ }}"


def _hook(hook: str, priority: int, *rules: object) -> Iterator[str]:
    """Yield the chain of a hook; a rule that is empty is left out."""
    what = f"type filter hook {hook} priority {priority}; policy accept;"
    return _block(f"chain {hook}", what, *rules)


def _block(name: str, *lines: object) -> Iterator[str]:
    yield f"\t{name} {{"
    for line in filter(None, lines):
        yield f"\t\t{line}"
    yield "\t}"


def _from(port: Port) -> Iterator[str]:
    """What a guest may send: the chain of one interface."""
    own = _set(port.addresses)
    liar = f'counter name "{forged(port)}" drop'
    astray = f'counter name "{refused(port)}" drop'
    mine = _set([*port.addresses, "0.0.0.0"])  # noqa: S104 - an ARP probe's
    lies = f"arp saddr ip != {mine} arp saddr ip"
    is_own = f"ip saddr {own} " if own else ""
    not_own = f"ip saddr != {own} " if own else ""
    yield f"\t# {port.vm}"
    yield from _block(
        f"chain from_{port.interface}",
        port.mac and f"ether saddr != {port.mac} {liar}",
        port.bridge and f"{lies} @guests {liar}",
        port.bridge and f"{lies} {LINK_LOCAL} {liar}",
        port.bridge and f"arp daddr ip {SERVICE} accept",
        own and f"{not_own}ip saddr @guests {liar}",
        f"{is_own}ip daddr {SERVICE} tcp dport {SERVICE_PORT} "
        f'counter name "{asked(port)}" {_handing_over(port)} accept',
        # No guest of the file has this address, but the packet is spoofed all the same.
        own and f"{not_own}ip saddr != {LINK_LOCAL} ip daddr {LINK_LOCAL} {liar}",
        f"ip daddr {LINK_LOCAL} {astray}",
        f"{not_own}ip saddr {LINK_LOCAL} {astray}",
    )


def _handing_over(port: Port) -> str:
    """Return what makes a packet one for the guest's listener."""
    to_listener = f"tcp dport set {port.listener.port}"
    if not port.bridge:
        return f"notrack {to_listener}"
    # The guest may have sent it to its router's MAC. A broadcast is the one frame
    # that a bridge hands to its host whatever the bridge's own MAC is; `forward`
    # drops the copies for others.
    return f"ether daddr set {_BROADCAST} meta pkttype set host {to_listener}"


def _to(port: Port) -> Iterator[str]:
    """What the service may send to a guest: replies of its listener alone."""
    own = f"ip daddr {_set(port.addresses)} " if port.addresses else ""
    sport = f"tcp sport {port.listener.port} tcp sport set {SERVICE_PORT}"
    return _block(f"chain to_{port.interface}", f"{own}{sport} accept", "drop")


def _no_forwarding(interfaces: str) -> Iterator[str]:
    for side in ("iifname", "oifname"):
        for end in ("saddr", "daddr"):
            yield f"{side} {interfaces} ip {end} {LINK_LOCAL} drop"


def _verdicts(verdict: str, prefix: str, ports: tuple[Port, ...]) -> str:
    return _set(
        f'"{port.interface}" : {verdict} {prefix}_{port.interface}' for port in ports
    )


def _quoted(names: Iterable[str]) -> str:
    return _set(f'"{name}"' for name in names)


def _set(elements: Iterable[str]) -> str:
    """Return a set of nftables, each element once; nothing where there is none."""
    shown = ", ".join(dict.fromkeys(elements))
    return f"{{ {shown} }}" if shown else ""
