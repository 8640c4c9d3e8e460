"""Parse URLs and listening addresses. Pure."""

from __future__ import annotations

import re

from forewarn.protocol.frozen import frozen_dataclass

_URL = re.compile(
    r"(?P<scheme>https?)://"
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._~-]+)?)\]|(?P<host>[A-Za-z0-9._~-]+))"
    r"(?::(?P<port>\d{1,5}))?(?P<target>[/?][\x21\x22\x24-\x7e]*)?(?:#.*)?",
    re.ASCII | re.IGNORECASE,
)
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?", re.ASCII)
_PORTS = {"http": 80, "https": 443}
_PORT_MAX = 65_535


@frozen_dataclass
class Url:
    """The parts of a URL."""

    scheme: str
    """`http` or `https`."""
    host: str
    """A name or an address. An IPv6 address has no brackets, but may have a zone."""
    port: int
    target: str
    """Path and query; empty if the URL ends with the host."""

    @property
    def is_secure(self) -> bool:
        """Return whether the URL needs TLS."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """Return the value of the Host header."""
        # A zone is only valid on this machine.
        host = self.host.partition("%")[0]
        shown = f"[{host}]" if ":" in host else host
        return shown if self.port == _PORTS[self.scheme] else f"{shown}:{self.port}"

    @property
    def base(self) -> str:
        """Return the URL up to the host and port."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        is_usual = self.port == _PORTS[self.scheme]
        return f"{self.scheme}://{shown}" + ("" if is_usual else f":{self.port}")


def parse_url(text: str) -> Url:
    """Return the parts of an http or https URL; raises ValueError with a message.

    User names and passwords are refused, since they belong in a file.
    """
    match = _URL.fullmatch(text.strip())
    if match is None:
        # The error does not repeat text before an @, which may be a password.
        shown = text.rpartition("@")[2][:100]
        why = ": user names and passwords are not allowed in it" if "@" in text else ""
        raise ValueError(f"{shown!r} is not a URL such as http://169.254.169.254{why}")
    scheme = match["scheme"].lower()
    port = int(match["port"]) if match["port"] else _PORTS[scheme]
    if not 0 < port <= _PORT_MAX:
        raise ValueError(f"{port} is not a valid port")
    target = match["target"] or ""
    return Url(
        scheme=scheme,
        host=(match["six"] or match["host"]).lower(),
        port=port,
        target=f"/{target}" if target.startswith("?") else target,
    )


def split_listener(listen: str) -> tuple[str, int] | None:
    """Return the host and port of HOST:PORT, such as `[::1]:9464`; None: invalid."""
    host, colon, digits = listen.rpartition(":")
    if not colon or not digits.isascii() or not digits.isdigit():
        return None
    if int(digits) > _PORT_MAX:
        return None
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        is_six = ":" in host and host.isascii()
        return (host, int(digits)) if is_six else None
    return (host, int(digits)) if _HOST.fullmatch(host) else None
