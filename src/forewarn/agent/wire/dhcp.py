"""Parse DHCP packets for the endpoint's address: bytes in, values out. Pure.

Anyone can send packets. A packet with any error is rejected, and only an address that
an endpoint may have is accepted (clause 8.2).
"""

from __future__ import annotations

from collections.abc import Mapping

from forewarn.protocol.frozen import frozen_dataclass

ENDPOINT = 245
"""The option with the endpoint's address, in four bytes."""

SERVER_PORT = 67
CLIENT_PORT = 68

PACKET_BYTES_MAX = 4096
"""Maximum size of a packet; 576 bytes are usual."""

XID_BYTES = 4
MAC_BYTES = 6

AZURE = bytes((168, 63, 129, 16))
"""Azure's address: the only public address that is accepted."""

_HEAD_BYTES = 236
_COOKIE = bytes((99, 130, 83, 99))
_PACKET_BYTES_MIN = _HEAD_BYTES + len(_COOKIE)
_BOOTP_BYTES = 300
"""Minimum packet size that old relays require."""

_REQUEST, _REPLY = 1, 2
_ETHERNET = 1
_BROADCAST = 0x8000
"""Ask for a broadcast answer, since other programs may use the port too."""

_PAD, _END, _OVERLOAD, _MESSAGE, _SERVER, _WANTED = 0, 255, 52, 53, 54, 55
_LASTS = 51
_DISCOVER, _OFFER, _ACK = 1, 2, 5
_FILE, _SNAME = 1, 2
"""Bits of the overload option: which fields hold further options."""

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
"""Private networks, each with the length of its prefix."""


class DhcpError(ValueError):
    """The bytes are not a valid answer; the message says why."""


@frozen_dataclass
class Reply:
    """A valid packet of a server."""

    xid: bytes
    mac: bytes
    """The address of the network interface that the answer is for."""
    options: Mapping[int, bytes]

    @property
    def endpoint(self) -> str:
        """Return the endpoint's address; empty: there is none, or it is not
        accepted."""
        return endpoint_in(self.options.get(ENDPOINT, b""))

    @property
    def lasts(self) -> int | None:
        """Return the lifetime of the lease in seconds; None: unlimited or unknown."""
        value = self.options.get(_LASTS, b"")
        seconds = int.from_bytes(value, "big")
        is_known = len(value) == _SECONDS_BYTES and seconds != _FOR_EVER
        return seconds if is_known else None

    @property
    def server(self) -> str:
        """Return the server's address; empty: unknown."""
        value = self.options.get(_SERVER, b"")
        return _dotted(value) if len(value) == _ADDRESS_BYTES else ""


@frozen_dataclass
class SearchResult:
    """The result of a search, on this machine or at DHCP servers."""

    addresses: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    """The result of each step, one sentence each."""


def discover(*, xid: bytes, mac: bytes) -> bytes:
    """Return a DISCOVER packet; no offer is ever accepted."""
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
    """Return the content of an offer or acknowledgement; raises DhcpError."""
    if not _PACKET_BYTES_MIN < len(packet) <= PACKET_BYTES_MAX:
        raise DhcpError(f"{len(packet)} bytes are not a DHCP packet")
    if packet[0:3] != bytes((_REPLY, _ETHERNET, MAC_BYTES)):
        raise DhcpError("it is not an answer for an Ethernet interface")
    if packet[_HEAD_BYTES:_PACKET_BYTES_MIN] != _COOKIE:
        raise DhcpError("it has no magic cookie")
    options: dict[int, bytes] = {}
    _take(packet[_PACKET_BYTES_MIN:], options, needs_end=True)
    overload = options.get(_OVERLOAD, b"\0")
    if len(overload) != 1 or overload[0] > _FILE | _SNAME:
        raise DhcpError("its overload option is invalid")
    # In this order, in which the parts of a long option follow each other (RFC 3396).
    if overload[0] & _FILE:
        _take(packet[108:236], options)
    if overload[0] & _SNAME:
        _take(packet[44:108], options)
    if options.get(_MESSAGE) not in {bytes((_OFFER,)), bytes((_ACK,))}:
        raise DhcpError("it is neither an offer nor an acknowledgement")
    return Reply(xid=packet[4:8], mac=packet[28 : 28 + MAC_BYTES], options=options)


def answer_to(packet: bytes, *, xid: bytes, mac: bytes) -> Reply:
    """Return the answer to this agent's request; raises DhcpError."""
    reply = parse(packet)
    if reply.xid != xid or reply.mac != mac:
        raise DhcpError("it answers another request")
    return reply


def endpoint_in(address: bytes) -> str:
    """Return four bytes as an address, if an endpoint may have it; else an empty text.

    Only private and link-local addresses and Azure's are accepted. Any other address is
    a mistake or an attempt to redirect the agent.
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
