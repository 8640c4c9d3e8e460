"""One domain on one host: where it is, its state, its mark, and its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from . import marks, states
from .hosts import NO_DOMAIN, NO_METADATA, Hosts
from .orders import Mark, NoDomainError, WorkError
from .states import Seen

T = TypeVar("T")

LIVE, CONFIG = 1, 2
"""VIR_DOMAIN_AFFECT_LIVE and VIR_DOMAIN_AFFECT_CONFIG."""
ELEMENT = 2
"""VIR_DOMAIN_METADATA_ELEMENT."""
SECURE, INACTIVE, MIGRATABLE = 1, 2, 8
"""virDomainXMLFlags."""
KEEP_NVRAM = 8
"""VIR_DOMAIN_UNDEFINE_KEEP_NVRAM: the process goes on."""
UNDEFINE_ALL = 1 | 2 | 4 | 16
"""VIR_DOMAIN_UNDEFINE_… of saved memory, snapshots, NVRAM and checkpoints."""

PAUSE_SECONDS = 0.2
"""Seconds between two looks at a guest that shuts down."""


@dataclass(frozen=True)
class Found:
    """A domain with its present state."""

    host: str
    domain: Any
    state: int
    reason: int

    @property
    def seen(self) -> Seen:
        """Return the meaning of the state."""
        return states.seen_in(self.state, self.reason)

    @property
    def is_active(self) -> bool:
        """Return whether it has a process."""
        return self.state not in {states.OFF_STATE, states.CRASHED_STATE}

    @property
    def is_off(self) -> bool:
        """Return whether its user shut it down from inside."""
        return self.seen.presence == states.OFF


class Domains:
    """The domains of all hosts, by the names of their VMs."""

    def __init__(
        self,
        hosts: Hosts,
        stop: threading.Event,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Look at nothing yet; `stop` ends waits. `say` gets lines about work that runs."""
        self.hosts = hosts
        self.stop = stop
        self.say = say

    def ask(self, host: str, work: Callable[[Any], T]) -> T:
        """Return what `work` does with a connection; raises WorkError."""
        conn = self.hosts.get(host)
        try:
            return work(conn)
        except self.hosts.api.libvirtError as error:
            raise self.hosts.failure(host, error) from None

    def find(self, vm: str, host: str) -> Found | None:
        """Return the domain of a VM on a host; None: it has none."""

        def look(conn: Any) -> Found | None:
            try:
                domain = conn.lookupByName(vm)
                state, reason = domain.state()[:2]
            except self.hosts.api.libvirtError as error:
                if error.get_error_code() == NO_DOMAIN:
                    return None
                raise
            return Found(host=host, domain=domain, state=state, reason=reason)

        return self.ask(host, look)

    def need(self, vm: str, host: str) -> Found:
        """Return the domain of a VM on a host; raises NoDomainError."""
        found = self.find(vm, host)
        if found is None:
            raise NoDomainError(
                f"{host} has no domain {vm}: it was undefined, renamed or moved by hand; "
                f"`virsh list --all` on {host} shows the domains"
            )
        return found

    def do(self, found: Found, work: Callable[[Any], T]) -> T:
        """Return what `work` does with a domain; raises WorkError."""
        return self.ask(found.host, lambda _: work(found.domain))

    def is_persistent(self, found: Found) -> bool:
        """Return whether the domain is defined without its process."""
        return self.do(found, lambda domain: bool(domain.isPersistent()))

    # Metadata, which libvirt keeps for us

    def write_metadata(
        self, found: Found, text: str | None, *, prefix: str, namespace: str
    ) -> None:
        """Keep an element with a domain, for its process and its definition.

        None removes it. Raises WorkError.
        """

        def write(domain: Any) -> None:
            flags = LIVE if domain.isActive() else 0
            flags |= CONFIG if domain.isPersistent() else 0
            domain.setMetadata(ELEMENT, text, prefix, namespace, flags)

        self.do(found, write)

    def read_metadata(self, found: Found, namespace: str) -> str:
        """Return the element of a domain; empty: there is none. Raises WorkError.

        The definition of a persistent domain has the newest one: a process that was
        restored from its saved memory has that of the time of the save.
        """

        def read(domain: Any) -> str:
            flags = CONFIG if domain.isPersistent() else LIVE
            try:
                return str(domain.metadata(ELEMENT, namespace, flags))
            except self.hosts.api.libvirtError as error:
                if error.get_error_code() == NO_METADATA:
                    return ""
                raise

        return self.do(found, read)

    def write_mark(self, found: Found, mark: Mark) -> None:
        """Leave a mark at a domain; raises WorkError."""
        self.write_metadata(
            found,
            marks.element_of(mark),
            prefix=marks.PREFIX,
            namespace=marks.NAMESPACE,
        )

    def read_mark(self, found: Found) -> Mark | None:
        """Return the last mark at a domain; None: there is none, or none is readable."""
        return marks.mark_in(self.read_metadata(found, marks.NAMESPACE))

    # Stop and start

    def shut_down(self, found: Found, *, seconds: float) -> bool:
        """Stop a guest; return whether it shut down by itself in time."""
        deadline = time.monotonic() + seconds
        if seconds > 0:
            # Without an answer, it is ended below.
            try:
                self.do(found, lambda domain: domain.shutdown())
            except WorkError:
                deadline = 0.0
        while time.monotonic() < deadline and not self.stop.is_set():
            if not self.do(found, self._is_active):
                return True
            self.stop.wait(PAUSE_SECONDS)
        if self.stop.is_set():
            raise WorkError("the work was stopped")
        self.end(found)
        return False

    def end(self, found: Found) -> None:
        """End the process of a domain, if it has one."""

        def destroy(domain: Any) -> None:
            try:
                domain.destroy()
            except self.hosts.api.libvirtError:
                if self._is_active(domain):
                    raise

        self.do(found, destroy)

    def _is_active(self, domain: Any) -> bool:
        try:
            return bool(domain.isActive())
        except self.hosts.api.libvirtError as error:
            # A domain without a definition is gone when its process ends.
            return error.get_error_code() != NO_DOMAIN
