"""Ask the DHCP servers of this network for the endpoint's address (clause 8.2).

The agent broadcasts a request and accepts no offer, so the machine's DHCP client and
its lease are not affected. Every wait is bounded. This works on Linux only. Elsewhere,
or without the needed privileges, the result says so.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from collections.abc import Callable, Iterator

from forewarn.agent.wire import dhcp
from forewarn.agent.wire.connection import TIMEOUTS
from forewarn.agent.wire.dhcp import SearchResult
from forewarn.clock import Clock
from forewarn.protocol.frozen import frozen_dataclass

CARDS = "/sys/class/net"
ROUTES = "/proc/net/route"

CARDS_MAX = 4
"""Maximum number of network interfaces to ask on: the first one usually leads to the
endpoint."""

TRY_SECONDS = (1.0, 2.0, 4.0)
"""How long to wait for an answer to each attempt on an interface; one may be lost."""

PACKETS_MAX = 200
"""Maximum number of packets to read per attempt, in case of a flood."""

_ETHERNET = "1"
_UP = 1
"""The bit of an interface's flags."""

_DEFAULT_ROUTE = "00000000"


@frozen_dataclass
class Card:
    """A network interface of this machine."""

    name: str
    mac: bytes


def ask(
    *,
    clock: Clock,
    cards: Callable[[], list[Card]] | None = None,
) -> SearchResult:
    """Ask on each interface, until an answer has the address of an endpoint. Never
    raises.

    This takes seven seconds for each interface without an answer.
    """
    if not sys.platform.startswith("linux"):
        return SearchResult(sentences=("DHCP requests are sent only on Linux",))
    sentences: list[str] = []
    for card in (cards or usable_cards)():
        try:
            reply = _asked_on(card, clock)
        except OSError as error:
            sentences.append(f"no DHCP request on {card.name}: {_why(error)}")
            continue
        if reply is None:
            sentences.append(f"no DHCP server answers on {card.name}")
        elif reply.endpoint:
            sentences.append(
                f"DHCP option {dhcp.ENDPOINT} on {card.name} names {reply.endpoint}"
            )
            return SearchResult(addresses=(reply.endpoint,), sentences=tuple(sentences))
        else:
            who = reply.server or "a server"
            sentences.append(f"DHCP on {card.name}: {who} names no endpoint")
    return SearchResult(
        sentences=tuple(sentences)
        or ("there is no network interface for a DHCP request",)
    )


def usable_cards(cards: str = CARDS, routes: str = ROUTES) -> list[Card]:
    """Return the Ethernet interfaces that are up, preferably those of default
    routes."""
    metrics = dict(_default_routes(routes))
    cards_found: list[Card] = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(cards)):
            directory = os.path.join(cards, name)
            # Machines behind a bridge belong to this host, unless its default route
            # uses it.
            is_bridge = os.path.exists(os.path.join(directory, "bridge"))
            if is_bridge and name not in metrics:
                continue
            if _line(directory, "type") != _ETHERNET:
                continue
            try:
                is_up = int(_line(directory, "flags"), 16) & _UP
                mac = bytes.fromhex(_line(directory, "address").replace(":", ""))
            except ValueError:
                continue
            if is_up and len(mac) == dhcp.MAC_BYTES:
                cards_found.append(Card(name=name, mac=mac))
    routed = [card for card in cards_found if card.name in metrics]
    routed.sort(key=lambda card: metrics[card.name])
    return (routed or cards_found)[:CARDS_MAX]


def _default_routes(path: str) -> Iterator[tuple[str, int]]:
    """Yield the interfaces of default routes with their metrics, the best last."""
    routes: list[tuple[int, str]] = []
    with contextlib.suppress(OSError), open(path, encoding="ascii") as lines:
        for line in lines:
            fields = line.split()
            # Interface, destination, gateway, flags, three counters, metric, mask.
            if len(fields) > 7 and fields[1] == fields[7] == _DEFAULT_ROUTE:  # noqa: PLR2004
                with contextlib.suppress(ValueError):
                    routes.append((int(fields[6]), fields[0]))
    for metric, name in sorted(routes, reverse=True):
        yield name, metric


def _line(directory: str, name: str) -> str:
    try:
        with open(os.path.join(directory, name), encoding="ascii") as file:
            return file.readline(100).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _asked_on(card: Card, clock: Clock) -> dhcp.Reply | None:
    """Return the best answer: the first with an endpoint; raises OSError."""
    best: dhcp.Reply | None = None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        bound = card.name.encode() + b"\0"
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, bound)
        # Answers are broadcast, or sent to an address that the interface does not have.
        wire.bind(("", dhcp.CLIENT_PORT))
        for seconds in TRY_SECONDS:
            xid = os.urandom(dhcp.XID_BYTES)
            question = dhcp.discover(xid=xid, mac=card.mac)
            wire.sendto(question, ("255.255.255.255", dhcp.SERVER_PORT))
            for reply in _replies(wire, card, xid, clock.monotonic, seconds):
                if reply.endpoint:
                    return reply
                best = best or reply
            if best is not None:
                return best
    return None


def _replies(
    wire: socket.socket,
    card: Card,
    xid: bytes,
    monotonic: Callable[[], float],
    seconds: float,
) -> Iterator[dhcp.Reply]:
    """Yield the valid answers to one request, and ignore other packets."""
    ends = monotonic() + seconds
    for _ in range(PACKETS_MAX):
        left = ends - monotonic()
        if left <= 0:
            return
        wire.settimeout(left)
        try:
            packet, where = wire.recvfrom(dhcp.PACKET_BYTES_MAX + 1)
        except TIMEOUTS:
            return
        if where[1] != dhcp.SERVER_PORT:
            continue
        with contextlib.suppress(dhcp.DhcpError):
            yield dhcp.answer_to(packet, xid=xid, mac=card.mac)


def _why(error: OSError) -> str:
    if error.errno in {errno.EPERM, errno.EACCES}:
        return "that needs root, or CAP_NET_BIND_SERVICE and CAP_NET_RAW"
    if error.errno == errno.EADDRINUSE:
        return "another DHCP client has exclusive use of port 68"
    return error.strerror or str(error)
