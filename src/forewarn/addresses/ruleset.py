"""The nftables rules of a plan, as text for one `nft -f`.

Rules refer to interfaces by name, not by number, because a tap may come and go with its
guest. The rules drop everything that is not listed: a guest that is missing in a plan
gets no answer, and never the document of another guest.

The rules rewrite ports without connection tracking. So the current rules apply to each
packet, a connection table cannot confuse two guests with the same address, and `undo`
leaves nothing behind.
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
"""The name of forewarn's tables."""

FAMILIES = ("inet", "bridge")

STRANGERS = "strangers"
"""The counter of packets to the service from callers that are not in the plan."""

_RAW = -310
"""Priority before connection tracking (-200) and the usual raw tables (-300)."""
_LAST = 300
"""Priority after all other rules that may inspect a reply."""
_BRIDGE_FIRST = -300
_BRIDGE_FILTER = -200
_BRIDGE_OUT = 100

_BROADCAST = "ff:ff:ff:ff:ff:ff"
_HANDED_UP = f"ether daddr {_BROADCAST} meta pkttype host"
"""A match for frames that the bridge table has passed to the host, and for no others: the
kernel marks a received broadcast as one. So a frame that a guest hides from the bridge
table, such as in two VLAN tags, is dropped."""


def asked(port: Port) -> str:
    """Return the counter of packets that were passed to the service."""
    return f"asked_{port.interface}"


def forged(port: Port) -> str:
    """Return the counter of packets with an address or MAC that is not the guest's.

    If the address is not in the file, only packets to the link-local network count: the
    rules do not inspect other traffic with such addresses.
    """
    return f"forged_{port.interface}"


def refused(port: Port) -> str:
    """Return the counter of packets to other link-local addresses."""
    return f"refused_{port.interface}"


def ruleset(plan: Plan) -> str:
    """Return the whole text; it replaces the rules of an earlier plan."""
    lines = (f"{line}\n" for line in (*_inet(plan), *_bridge(plan)))
    return removal(FAMILIES) + "".join(lines)


def removal(families: Iterable[str]) -> str:
    """Return the text that removes forewarn's tables of these families."""
    # The first line creates the table if it is missing, so that `delete` succeeds.
    return "".join(
        f"table {family} {TABLE}\ndelete table {family} {TABLE}\n"
        for family in families
    )


def _inet(plan: Plan) -> Iterator[str]:
    """Yield the table for routed taps and the host itself, which guards the listeners."""
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
        bridges
        and "# The bridge table has accepted the packet and chosen the listener.",
        bridges
        and f"iifname {bridges} {_HANDED_UP} ip daddr {SERVICE} "
        f"tcp dport {listeners} notrack accept",
        f"ip daddr {SERVICE} {strange}",
        wild
        and "# The listener listens at every address. "
        "Guests reach it only through the rules above.",
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
    """Yield the table for ports of bridges, where a frame's port is still known."""
    if not plan.bridged:
        return
    interfaces = _quoted(port.interface for port in plan.bridged)
    yield f"table bridge {TABLE} {{"
    yield from _objects(plan, plan.bridged)
    yield from _hook(
        *("prerouting", _BRIDGE_FIRST),
        f"iifname vmap {_verdicts('jump', 'from', plan.bridged)}",
        "# The rules below are for ports that are in no plan, such as the uplink.",
        f"arp saddr ip {SERVICE} drop",
        f"arp daddr ip {SERVICE} drop",
        f'ip daddr {SERVICE} counter name "{STRANGERS}" drop',
    )
    for port in plan.bridged:
        yield from _from(port)
    yield from _hook(
        *("forward", _BRIDGE_FILTER),
        "# Packets to the service are for this host only.",
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
    """Yield the chain of a hook, without empty rules."""
    declaration = f"type filter hook {hook} priority {priority}; policy accept;"
    return _block(f"chain {hook}", declaration, *rules)


def _block(name: str, *lines: object) -> Iterator[str]:
    yield f"\t{name} {{"
    for line in filter(None, lines):
        yield f"\t\t{line}"
    yield "\t}"


def _from(port: Port) -> Iterator[str]:
    """Yield the chain for packets that a guest sends."""
    own = _set(port.addresses)
    liar = f'counter name "{forged(port)}" drop'
    astray = f'counter name "{refused(port)}" drop'
    sources = _set([*port.addresses, "0.0.0.0"])  # noqa: S104 - an ARP probe's
    lies = f"arp saddr ip != {sources} arp saddr ip"
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
        # No guest of the file has this address, but the packet is spoofed anyway.
        own and f"{not_own}ip saddr != {LINK_LOCAL} ip daddr {LINK_LOCAL} {liar}",
        f"ip daddr {LINK_LOCAL} {astray}",
        f"{not_own}ip saddr {LINK_LOCAL} {astray}",
    )


def _handing_over(port: Port) -> str:
    """Return the statements that redirect a packet to the guest's listener."""
    to_listener = f"tcp dport set {port.listener.port}"
    if not port.bridge:
        return f"notrack {to_listener}"
    # The guest may have sent it to its router's MAC. A bridge passes a broadcast to its
    # host regardless of the bridge's MAC; `forward` drops the copies for others.
    return f"ether daddr set {_BROADCAST} meta pkttype set host {to_listener}"


def _to(port: Port) -> Iterator[str]:
    """Yield the chain for packets to a guest: only replies of its listener."""
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
    """Return a set of nftables without duplicates; empty if there are no elements."""
    members = ", ".join(dict.fromkeys(elements))
    return f"{{ {members} }}" if members else ""
