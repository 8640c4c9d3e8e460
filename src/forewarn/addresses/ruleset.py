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
    return "\n".join([*_removal(FAMILIES), *_inet(plan), *_bridge(plan)]) + "\n"


def removal(families: Iterable[str]) -> str:
    """Return the text that removes our tables of these families."""
    return "".join(f"{line}\n" for line in _removal(families))


def _removal(families: Iterable[str]) -> Iterator[str]:
    for family in families:
        # Named first, so that it may be removed where there is none.
        yield f"table {family} {TABLE}"
        yield f"delete table {family} {TABLE}"


def _inet(plan: Plan) -> Iterator[str]:
    """Routed taps, the host's own stack, and what guards the listeners."""
    devices = _quoted(port.device for port in plan.ports)
    bridges = _quoted(port.bridge for port in plan.bridged)
    listeners = _set(str(port.listener.port) for port in plan.ports)
    yield f"table inet {TABLE} {{"
    yield from _objects(plan, plan.routed)
    yield "\tchain prerouting {"
    yield f"\t\ttype filter hook prerouting priority {_RAW}; policy accept;"
    if plan.routed:
        yield f"\t\tiifname vmap {_verdicts('jump', 'from', plan.routed)}"
    if plan.bridged:
        yield "\t\t# The bridge table has let it through, and chosen the listener."
        yield (
            f"\t\tiifname {bridges} {_HANDED_UP} "
            f"ip daddr {SERVICE} tcp dport {listeners} notrack accept"
        )
    yield f'\t\tip daddr {SERVICE} counter name "{STRANGERS}" drop'
    if wild := _set(
        str(port.listener.port) for port in plan.ports if port.listener.is_wildcard
    ):
        yield "\t\t# The listener is at every address: here is no other way to it."
        yield (
            f'\t\ttcp dport {wild} fib daddr type local counter name "{STRANGERS}" drop'
        )
    yield "\t}"
    for port in plan.routed:
        yield from _from(port)
    yield "\tchain forward {"
    yield "\t\ttype filter hook forward priority -10; policy accept;"
    yield from _no_forwarding(devices)
    yield "\t}"
    yield "\tchain output {"
    yield f"\t\ttype filter hook output priority {_RAW}; policy accept;"
    yield f"\t\tip saddr {SERVICE} tcp sport {listeners} notrack"
    yield "\t}"
    yield "\tchain postrouting {"
    yield f"\t\ttype filter hook postrouting priority {_LAST}; policy accept;"
    if plan.routed:
        routed = _verdicts("goto", "to", plan.routed)
        yield f"\t\tip saddr {SERVICE} oifname vmap {routed}"
    if plan.bridged:
        yield f"\t\tip saddr {SERVICE} oifname {bridges} tcp sport {listeners} accept"
    yield f"\t\tip saddr {SERVICE} drop"
    yield "\t}"
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
    yield "\tchain prerouting {"
    yield f"\t\ttype filter hook prerouting priority {_BRIDGE_FIRST}; policy accept;"
    yield f"\t\tiifname vmap {_verdicts('jump', 'from', plan.bridged)}"
    yield "\t\t# From here on: ports that are in no plan, such as the uplink."
    yield f"\t\tarp saddr ip {SERVICE} drop"
    yield f"\t\tarp daddr ip {SERVICE} drop"
    yield f'\t\tip daddr {SERVICE} counter name "{STRANGERS}" drop'
    yield "\t}"
    for port in plan.bridged:
        yield from _from(port)
    yield "\tchain forward {"
    yield f"\t\ttype filter hook forward priority {_BRIDGE_FILTER}; policy accept;"
    yield "\t\t# What is for the service is for this host alone."
    yield f"\t\tip daddr {SERVICE} drop"
    yield f"\t\tarp daddr ip {SERVICE} drop"
    yield from _no_forwarding(interfaces)
    yield "\t}"
    yield "\tchain output {"
    yield f"\t\ttype filter hook output priority {_BRIDGE_OUT}; policy accept;"
    yield f"\t\toifname != {interfaces} arp saddr ip {SERVICE} drop"
    yield f"\t\tip saddr {SERVICE} oifname vmap {_verdicts('goto', 'to', plan.bridged)}"
    yield f"\t\tip saddr {SERVICE} drop"
    yield "\t}"
    for port in plan.bridged:
        yield from _to(port)
    yield "}"


def _objects(plan: Plan, ports: tuple[Port, ...]) -> Iterator[str]:
    addresses = [address for port in plan.ports for address in port.addresses]
    yield "\tset guests {"
    yield "\t\ttype ipv4_addr"
    if addresses:
        yield f"\t\telements = {_set(addresses)}"
    yield "\t}"
    yield f"\tcounter {STRANGERS} {{ }}"
    for port in ports:
        for name in (asked(port), forged(port), refused(port)):
            yield f"\tcounter {name} {{ }}"


def _from(port: Port) -> Iterator[str]:
    """What a guest may send: the chain of one interface."""
    own = _set(port.addresses)
    liar = f'counter name "{forged(port)}" drop'
    astray = f'counter name "{refused(port)}" drop'
    yield f"\t# {port.vm}"
    yield f"\tchain from_{port.interface} {{"
    if port.mac:
        yield f"\t\tether saddr != {port.mac} {liar}"
    if port.bridge:
        mine = _set([*port.addresses, "0.0.0.0"])  # noqa: S104 - an ARP probe's
        yield f"\t\tarp saddr ip != {mine} arp saddr ip @guests {liar}"
        yield f"\t\tarp saddr ip != {mine} arp saddr ip {LINK_LOCAL} {liar}"
        yield f"\t\tarp daddr ip {SERVICE} accept"
    if own:
        yield f"\t\tip saddr != {own} ip saddr @guests {liar}"
    is_own = f"ip saddr {own} " if own else ""
    yield (
        f"\t\t{is_own}ip daddr {SERVICE} tcp dport {SERVICE_PORT} "
        f'counter name "{asked(port)}" {_handing_over(port)} accept'
    )
    if own:
        # No guest of the file has this address, but the packet is spoofed all the same.
        yield (
            f"\t\tip saddr != {own} ip saddr != {LINK_LOCAL} "
            f"ip daddr {LINK_LOCAL} {liar}"
        )
    yield f"\t\tip daddr {LINK_LOCAL} {astray}"
    not_own = f"ip saddr != {own} " if own else ""
    yield f"\t\t{not_own}ip saddr {LINK_LOCAL} {astray}"
    yield "\t}"


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
    yield f"\tchain to_{port.interface} {{"
    yield (
        f"\t\t{own}tcp sport {port.listener.port} tcp sport set {SERVICE_PORT} accept"
    )
    yield "\t\tdrop"
    yield "\t}"


def _no_forwarding(interfaces: str) -> Iterator[str]:
    for side in ("iifname", "oifname"):
        for end in ("saddr", "daddr"):
            yield f"\t\t{side} {interfaces} ip {end} {LINK_LOCAL} drop"


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
