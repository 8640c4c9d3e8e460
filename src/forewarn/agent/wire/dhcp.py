"""DHCP packets, as far as the endpoint's address is in them: bytes in, values out. Pure.

What comes from the network is from anybody. A packet with anything wrong about it is
no packet, and of what a good one says only an address that an endpoint may have is
believed (clause 8.2).
"""

from __future__ import annotations

from collections.abc import Mapping

from forewarn.protocol.frozen import frozen_dataclass

ENDPOINT = 245
"""The option that names the endpoint: four bytes of an address."""

SERVER_PORT = 67
CLIENT_PORT = 68

PACKET_BYTES_MAX = 4096
"""Of what is read as one packet; 576 are usual, and no card's frame has more than 9000."""

XID_BYTES = 4
MAC_BYTES = 6

AZURE = bytes((168, 63, 129, 16))
"""Azure's own: the one public address that is believed."""

_HEAD_BYTES = 236
_COOKIE = bytes((99, 130, 83, 99))
_PACKET_BYTES_MIN = _HEAD_BYTES + len(_COOKIE)
_BOOTP_BYTES = 300
"""What old relays want a packet to have at least."""

_REQUEST, _REPLY = 1, 2
_ETHERNET = 1
_BROADCAST = 0x8000
"""The answer is to come to all: others on this machine may have the port too."""

_PAD, _END, _OVERLOAD, _MESSAGE, _SERVER, _WANTED = 0, 255, 52, 53, 54, 55
_LASTS = 51
_DISCOVER, _OFFER, _ACK = 1, 2, 5
_FILE, _SNAME = 1, 2
"""Which fields hold further options: bits of the option that says so."""

_ADDRESS_BYTES = 4
_SECONDS_BYTES = 4
_FOR_EVER = 0xFFFF_FFFF
_MASK, _ROUTER = 1, 3

_PRIVATE = (
    (bytes((10,)), 8),
    (bytes((100, 64)), 10),
    (bytes((169, 254)), 16),
    (bytes((172, 16)), 12),
    (bytes((192, 168)), 16),
)
"""Networks that nobody reaches from elsewhere, each with the length of its prefix."""


class DhcpError(ValueError):
    """These bytes are no answer; the sentence says why."""


@frozen_dataclass
class Reply:
    """A sound packet of a server."""

    xid: bytes
    mac: bytes
    """Of the card that it is for."""
    options: Mapping[int, bytes]

    @property
    def endpoint(self) -> str:
        """Return the address that it names; empty: none, or none that is believed."""
        return endpoint_in(self.options.get(ENDPOINT, b""))

    @property
    def lasts(self) -> int | None:
        """Return for how many seconds the lease is; None: for ever, or nobody says."""
        found = self.options.get(_LASTS, b"")
        seconds = int.from_bytes(found, "big")
        is_known = len(found) == _SECONDS_BYTES and seconds != _FOR_EVER
        return seconds if is_known else None

    @property
    def server(self) -> str:
        """Return who says that; empty: it does not tell."""
        found = self.options.get(_SERVER, b"")
        return _dotted(found) if len(found) == _ADDRESS_BYTES else ""


def discover(*, xid: bytes, mac: bytes) -> bytes:
    """Return the question for what a server would offer; nothing is taken of it."""
    assert len(xid) == XID_BYTES
    assert len(mac) == MAC_BYTES
    packet = bytearray(_HEAD_BYTES)
    packet[0:4] = bytes((_REQUEST, _ETHERNET, MAC_BYTES, 0))
    packet[4:8] = xid
    packet[10:12] = _BROADCAST.to_bytes(2, "big")
    packet[28 : 28 + MAC_BYTES] = mac
    packet += _COOKIE
    packet += bytes((_MESSAGE, 1, _DISCOVER))
    packet += bytes((_WANTED, 3, _MASK, _ROUTER, ENDPOINT))
    packet.append(_END)
    return bytes(packet.ljust(_BOOTP_BYTES, b"\0"))


def parse(packet: bytes) -> Reply:
    """Return what an offer or an acknowledgement says; raises DhcpError."""
    if not _PACKET_BYTES_MIN < len(packet) <= PACKET_BYTES_MAX:
        raise DhcpError(f"{len(packet)} bytes are no DHCP packet")
    if packet[0:3] != bytes((_REPLY, _ETHERNET, MAC_BYTES)):
        raise DhcpError("it is no answer for an Ethernet card")
    if packet[_HEAD_BYTES:_PACKET_BYTES_MIN] != _COOKIE:
        raise DhcpError("it has no magic cookie")
    options: dict[int, bytes] = {}
    _take(packet[_PACKET_BYTES_MIN:], options, needs_end=True)
    overload = options.get(_OVERLOAD, b"\0")
    if len(overload) != 1 or overload[0] > _FILE | _SNAME:
        raise DhcpError("nobody knows where its further options are")
    # In this order, in which the parts of a long option follow each other (RFC 3396).
    if overload[0] & _FILE:
        _take(packet[108:236], options)
    if overload[0] & _SNAME:
        _take(packet[44:108], options)
    if options.get(_MESSAGE) not in {bytes((_OFFER,)), bytes((_ACK,))}:
        raise DhcpError("it neither offers nor acknowledges")
    return Reply(xid=packet[4:8], mac=packet[28 : 28 + MAC_BYTES], options=options)


def answer_to(packet: bytes, *, xid: bytes, mac: bytes) -> Reply:
    """Return the answer to our own question; raises DhcpError."""
    reply = parse(packet)
    if reply.xid != xid or reply.mac != mac:
        raise DhcpError("it answers somebody else")
    return reply


def endpoint_in(address: bytes) -> str:
    """Return the address that four bytes are, if an endpoint may have it.

    Private and link-local ones, and Azure's. Anything else in a lease is a mistake, or
    somebody who wants us to listen to a server of theirs.
    """
    if len(address) != _ADDRESS_BYTES:
        return ""
    is_private = any(
        int.from_bytes(address, "big") >> (32 - length)
        == int.from_bytes(network.ljust(_ADDRESS_BYTES, b"\0"), "big") >> (32 - length)
        for network, length in _PRIVATE
    )
    return _dotted(address) if is_private or address == AZURE else ""


def _take(field: bytes, options: dict[int, bytes], *, needs_end: bool = False) -> None:
    """Add the options of one field; raises DhcpError."""
    at = 0
    while at < len(field):
        code = field[at]
        at += 1
        if code == _PAD:
            continue
        if code == _END:
            return
        if at == len(field) or at + 1 + field[at] > len(field):
            raise DhcpError(f"option {code} is longer than the packet")
        length = field[at]
        options[code] = options.get(code, b"") + field[at + 1 : at + 1 + length]
        at += 1 + length
    if needs_end:
        raise DhcpError("its options have no end")


def _dotted(address: bytes) -> str:
    return ".".join(str(number) for number in address)
