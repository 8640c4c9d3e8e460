"""The name and the URLs of a replica, as it tells them to the others."""

import socket
from dataclasses import dataclass

from forewarn.metadata.server import Address
from forewarn.service.settings import Settings

_ANY = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not listened at


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAddress:
    """A replica, for people and for other replicas."""

    name: str
    url: str
    """Its operator API; empty: other machines cannot reach it."""
    metadata_url: str
    """Its endpoint for VMs; empty: it has no shared listener."""


def address_of(
    settings: Settings, *, metadata: Address | None, admin: Address | None
) -> ReplicaAddress:
    """Return the settings, with the listeners of this machine where they say nothing.

    `metadata` and `admin` are where the listeners are; None: there is no such listener,
    or it is a Unix socket.
    """
    cluster, machine = settings.cluster, socket.gethostname()
    scheme = "https" if settings.admin.tls_certificate else "http"
    return ReplicaAddress(
        name=cluster.name or machine,
        url=cluster.url or _url(scheme, admin, machine),
        metadata_url=cluster.metadata_url or _url("http", metadata, machine),
    )


def _url(scheme: str, address: Address | None, machine: str) -> str:
    """Return the URL of a listener: at its own address, or at any of the machine."""
    if address is None:
        return ""
    host, port = address
    if host in _ANY:
        host = machine
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
