"""Packets of DHCP servers, sound ones, for tests to spoil."""

from forewarn.agent.wire import dhcp

MAC = bytes.fromhex("5254000000a1")
XID = bytes.fromhex("0a0b0c0d")
ADDRESS = bytes((10, 1, 2, 3))
OFFER = bytes((53, 1, 2))
ACK = bytes((53, 1, 5))
SERVER = bytes((54, 4, 10, 1, 2, 1))
END = b"\xff"


def named(address: bytes = ADDRESS) -> bytes:
    """Return option 245 as it is on the wire."""
    return bytes((dhcp.ENDPOINT, len(address))) + address


def reply(
    *options: bytes,
    xid: bytes = XID,
    mac: bytes = MAC,
    sname: bytes = b"",
    file: bytes = b"",
    cookie: bytes = bytes((99, 130, 83, 99)),
    begins: bytes = bytes((2, 1, 6, 0)),
) -> bytes:
    """Return a server's packet with these options, which it ends by itself."""
    head = begins + xid + bytes(20) + mac.ljust(16, b"\0")
    head += sname.ljust(64, b"\0") + file.ljust(128, b"\0")
    return head + cookie + b"".join(options)


def offer(address: bytes = ADDRESS, **more: bytes) -> bytes:
    """Return a usual offer that names an endpoint."""
    return reply(OFFER, SERVER, named(address), END, **more)
