"""The settings and the order that a worker gets, and its exit statuses. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

DONE_STATUS = 0
RUNS_STATUS = 1
"""The action failed; the VM runs."""
UNKNOWN_STATUS = 2
"""It is unknown whether the VM runs."""
DOWN_STATUS = 3
"""The action failed; the VM does not run."""
STILL_RUNNING_STATUS = 4
"""A probe: the work is still running."""
STOPPED_STATUS = 143
"""Exit status after SIGTERM: 128 and the number of the signal, as in shells."""

BEGUN, DONE, FAILED = "begun", "done", "failed"
"""The states of a mark."""

ASKED, STOPPED = "asked", "stopped"


@dataclass(frozen=True)
class Settings:
    """The settings of the driver that a worker needs."""

    uri: str
    """URI of the libvirt of a host, with `{host}`."""
    uris: dict[str, str]
    """The URIs of hosts that do not follow the pattern."""
    peer_uri: str
    """The same for the libvirt of the source of a migration; empty: `uri`."""
    data_uri: str
    """Address for the memory of a migration, with `{host}`; empty: libvirt chooses."""
    migration: str
    """`pre-copy`, `auto-converge` or `post-copy`."""
    freeze: float
    """Seconds of a freeze, but at most those of its event."""
    shutdown: float
    """Seconds that a guest has to shut down; 0: it is not asked."""
    pause: str
    """`save` (memory goes to the disk) or `suspend` (it stays)."""
    connect: float
    """Maximum seconds to reach a host."""

    def uri_of(self, host: str) -> str:
        """Return the URI of a host."""
        return self.uris.get(host) or filled(self.uri, host)

    def peer_uri_of(self, host: str) -> str:
        """Return the URI of a destination, as its source reaches it."""
        return filled(self.peer_uri, host) if self.peer_uri else self.uri_of(host)

    def data_uri_of(self, host: str) -> str:
        """Return the address for the memory of a migration to a host."""
        return filled(self.data_uri, host)


def filled(pattern: str, host: str) -> str:
    """Return a pattern with the name of a host."""
    return pattern.replace("{host}", quote(host, safe=""))


def settings_from(text: str) -> Settings:
    """Return the settings in an argument."""
    note: dict[str, Any] = json.loads(text)
    return Settings(**note)


@dataclass(frozen=True)
class Mark:
    """The mark of a call at a domain."""

    text: str
    """Name of the call: operation, generation and action."""
    state: str = BEGUN
    stop: str = ""
    """ASKED before the call stops the guest, STOPPED when it does not run any more. A call
    that has started it leaves a mark without it."""
    term: int = 0
    """Term of the replica that made the call; 0: a service without replicas."""
    store: str = ""
    """Name of the store whose term it is."""

    @property
    def operation(self) -> str:
        """Return the ID of the operation."""
        return self.text.partition(".")[0]

    @property
    def has_stopped_guest(self) -> bool:
        """Return whether a guest that does not run was stopped by the call.

        After a failure that left the guest running, its user can have done it since.
        """
        return self.stop == STOPPED or (self.stop == ASKED and self.state != FAILED)


@dataclass(frozen=True)
class Order:
    """The action on one VM."""

    action: str
    vm: str
    host: str
    to_host: str
    seconds: float
    """Maximum seconds of a freeze; -1: no limit."""
    mark: Mark


def order_from(note: dict[str, Any]) -> Order:
    """Return the order in a call on standard input."""
    return Order(
        action=note["action"],
        vm=note["vm"],
        host=note["host"],
        to_host=note["to_host"] or "",
        seconds=note["seconds"],
        mark=Mark(note["mark"], term=note.get("term", 0), store=note.get("store", "")),
    )


class WorkError(Exception):
    """The work on a VM failed; the text is for an operator."""


class UnreachableError(WorkError):
    """A host could not be reached, or the connection to it was lost."""


class NoDomainError(WorkError):
    """A host has no domain with the name of the VM."""
