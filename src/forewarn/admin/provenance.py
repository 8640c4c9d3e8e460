"""The way of a request to the service, from its headers: its host, and proxies."""

import re

from starlette.datastructures import Headers
from starlette.types import Scope

from forewarn.admin.access import OPEN_PATHS
from forewarn.fleet.validators import is_loopback

_FORWARDING = frozenset(
    {
        "cf-connecting-ip",
        "client-ip",
        "fastly-client-ip",
        "forwarded",
        "forwarded-for",
        "proxy-connection",
        "true-client-ip",
        "via",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-envoy-external-address",
        "x-real-ip",
    }
)
"""Headers that proxies add to requests."""

_FORWARDING_PREFIXES = ("x-forwarded", "x-original-")


def forwarding_header(headers: Headers) -> str:
    """Return the name of a header that a proxy added; empty if there is none."""
    for name in headers:
        folded = name.lower()
        if folded in _FORWARDING or folded.startswith(_FORWARDING_PREFIXES):
            return folded
    return ""


def sign_of_proxy(scope: Scope, headers: Headers) -> str:
    """Return the sign of a forwarded request; empty if there is none.

    nginx adds no header by default, but it uses HTTP/1.0 then. No client of the API
    does, except health probes.
    """
    if scope["http_version"] == "1.0" and scope["path"] not in OPEN_PATHS:
        return "HTTP/1.0"
    return forwarding_header(headers)


_HOST = re.compile(
    r"(?:\[([0-9a-f.]*:[0-9a-f:.]*)\]|([a-z0-9.-]+))(?::[0-9]{1,5})?", re.ASCII
)
"""An IPv6 address in brackets, or another name, with an optional port."""


def names_loopback(host: str) -> bool:
    """Return whether a Host header names the machine's loopback.

    The whole header must be a name with an optional port: other programs may read
    `localhost:1@elsewhere` differently.
    """
    matched = _HOST.fullmatch(host.strip().lower())
    return matched is not None and is_loopback(matched[1] or matched[2])
