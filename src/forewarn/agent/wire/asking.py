"""Asks the DHCP servers of this network for the endpoint's address (clause 8.2).

A question is broadcast, and what is offered is not taken: the machine's own client and
its lease are not touched. Every wait is bounded. Linux only; elsewhere, and without the
right to it, a sentence says that it cannot be done.
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
from forewarn.agent.wire.leases import Heard
from forewarn.clock import Clock
from forewarn.protocol.frozen import frozen_dataclass

CARDS = "/sys/class/net"
ROUTES = "/proc/net/route"

CARDS_MAX = 4
"""Cards that are asked on: the endpoint is reached by the first one."""

TRY_SECONDS = (1.0, 2.0, 4.0)
"""How long each question on a card is waited for; one may be lost."""

PACKETS_MAX = 200
"""That are looked at for one question: a busy network has a few, a flood has more."""

_ETHERNET = "1"
_UP = 1
"""The bit of a card's flags."""

_DEFAULT_ROUTE = "00000000"


@frozen_dataclass
class Card:
    """A network card of this machine."""

    name: str
    mac: bytes


def ask(
    *,
    clock: Clock,
    cards: Callable[[], list[Card]] | None = None,
) -> Heard:
    """Ask on each card, until one tells. Raises nothing.

    It takes seven seconds for each card on which nobody answers.
    """
    if not sys.platform.startswith("linux"):
        return Heard(told=("a DHCP request is sent on Linux only",))
    told: list[str] = []
    for card in (cards or usable_cards)():
        try:
            reply = _asked_on(card, clock)
        except OSError as error:
            told.append(f"no DHCP request on {card.name}: {_why(error)}")
            continue
        if reply is None:
            told.append(f"no DHCP server answers on {card.name}")
        elif reply.endpoint:
            told.append(
                f"DHCP option {dhcp.ENDPOINT} on {card.name} names {reply.endpoint}"
            )
            return Heard(addresses=(reply.endpoint,), told=tuple(told))
        else:
            who = reply.server or "a server"
            told.append(f"DHCP on {card.name}: {who} names no endpoint")
    return Heard(told=tuple(told) or ("there is no network card to ask DHCP on",))


def usable_cards(cards: str = CARDS, routes: str = ROUTES) -> list[Card]:
    """Return the Ethernet cards that are up: those of default routes, or else all."""
    metrics = dict(_default_routes(routes))
    found: list[Card] = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(cards)):
            folder = os.path.join(cards, name)
            # Who is behind a bridge is ours, unless our own way out leads over it.
            is_bridge = os.path.exists(os.path.join(folder, "bridge"))
            if is_bridge and name not in metrics:
                continue
            if _line(folder, "type") != _ETHERNET:
                continue
            try:
                is_up = int(_line(folder, "flags"), 16) & _UP
                mac = bytes.fromhex(_line(folder, "address").replace(":", ""))
            except ValueError:
                continue
            if is_up and len(mac) == dhcp.MAC_BYTES:
                found.append(Card(name=name, mac=mac))
    routed = [card for card in found if card.name in metrics]
    routed.sort(key=lambda card: metrics[card.name])
    return (routed or found)[:CARDS_MAX]


def _default_routes(path: str) -> Iterator[tuple[str, int]]:
    """Yield the cards of default routes with their metrics, the best last."""
    found: list[tuple[int, str]] = []
    with contextlib.suppress(OSError), open(path, encoding="ascii") as lines:
        for line in lines:
            fields = line.split()
            # Interface, destination, gateway, flags, three counters, metric, mask.
            if len(fields) > 7 and fields[1] == fields[7] == _DEFAULT_ROUTE:  # noqa: PLR2004
                with contextlib.suppress(ValueError):
                    found.append((int(fields[6]), fields[0]))
    for metric, name in sorted(found, reverse=True):
        yield name, metric


def _line(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), encoding="ascii") as file:
            return file.readline(100).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _asked_on(card: Card, clock: Clock) -> dhcp.Reply | None:
    """Return an answer, the first that names an endpoint; raises OSError."""
    best: dhcp.Reply | None = None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        bound = card.name.encode() + b"\0"
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, bound)
        # Answers come to all, or to an address that the card may not even have.
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
    """Yield the sound answers to one question; what else comes is passed over."""
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
        return "another DHCP client keeps port 68 to itself"
    return error.strerror or str(error)
