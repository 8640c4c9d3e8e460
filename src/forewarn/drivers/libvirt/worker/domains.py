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
from .states import GuestState

T = TypeVar("T")

LIVE, CONFIG = 1, 2
"""VIR_DOMAIN_AFFECT_LIVE and VIR_DOMAIN_AFFECT_CONFIG."""
ELEMENT = 2
"""VIR_DOMAIN_METADATA_ELEMENT."""
SECURE, INACTIVE, MIGRATABLE = 1, 2, 8
"""virDomainXMLFlags."""
KEEP_NVRAM = 8
"""VIR_DOMAIN_UNDEFINE_KEEP_NVRAM: the process continues."""
UNDEFINE_ALL = 1 | 2 | 4 | 16
"""VIR_DOMAIN_UNDEFINE_… of saved memory, snapshots, NVRAM and checkpoints."""

PAUSE_SECONDS = 0.2
"""Seconds between two checks of a guest that shuts down."""


@dataclass(frozen=True)
class Domain:
    """A domain with its present state."""

    host: str
    handle: Any
    state: int
    reason: int

    @property
    def guest(self) -> GuestState:
        """Return the meaning of the state."""
        return states.guest_state(self.state, self.reason)

    @property
    def is_active(self) -> bool:
        """Return whether it has a process."""
        return self.state not in {states.OFF_STATE, states.CRASHED_STATE}

    @property
    def is_off(self) -> bool:
        """Return whether its user shut it down from inside."""
        return self.guest.presence == states.OFF


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

    def find(self, vm: str, host: str) -> Domain | None:
        """Return the domain of a VM on a host; None: it has none."""

        def look(conn: Any) -> Domain | None:
            try:
                handle = conn.lookupByName(vm)
                state, reason = handle.state()[:2]
            except self.hosts.api.libvirtError as error:
                if error.get_error_code() == NO_DOMAIN:
                    return None
                raise
            return Domain(host=host, handle=handle, state=state, reason=reason)

        return self.ask(host, look)

    def need(self, vm: str, host: str) -> Domain:
        """Return the domain of a VM on a host; raises NoDomainError."""
        domain = self.find(vm, host)
        if domain is None:
            raise NoDomainError(
                f"{host} has no domain {vm}: it was undefined, renamed or moved by hand; "
                f"`virsh list --all` on {host} shows the domains"
            )
        return domain

    def do(self, domain: Domain, work: Callable[[Any], T]) -> T:
        """Return what `work` does with a domain; raises WorkError."""
        return self.ask(domain.host, lambda _: work(domain.handle))

    def is_persistent(self, domain: Domain) -> bool:
        """Return whether the domain is defined without its process."""
        return self.do(domain, lambda handle: bool(handle.isPersistent()))

    # Metadata, which libvirt keeps for us

    def write_metadata(
        self, domain: Domain, text: str | None, *, prefix: str, namespace: str
    ) -> None:
        """Keep an element with a domain, for its process and its definition.

        None removes it. Raises WorkError.
        """

        def write(handle: Any) -> None:
            flags = LIVE if handle.isActive() else 0
            flags |= CONFIG if handle.isPersistent() else 0
            handle.setMetadata(ELEMENT, text, prefix, namespace, flags)

        self.do(domain, write)

    def read_metadata(self, domain: Domain, namespace: str) -> str:
        """Return the element of a domain; empty: there is none. Raises WorkError.

        The definition of a persistent domain has the newest one: a process that was
        restored from its saved memory has that of the time of the save.
        """

        def read(handle: Any) -> str:
            flags = CONFIG if handle.isPersistent() else LIVE
            try:
                return str(handle.metadata(ELEMENT, namespace, flags))
            except self.hosts.api.libvirtError as error:
                if error.get_error_code() == NO_METADATA:
                    return ""
                raise

        return self.do(domain, read)

    def write_mark(self, domain: Domain, mark: Mark) -> None:
        """Leave a mark at a domain; raises WorkError.

        It does not replace the mark of a later term. libvirt has no compare-and-set, so a
        process that is paused between the look and the write is not noticed.
        """
        before = self.read_mark(domain) if mark.term else None
        is_ours = before is not None and before.store == mark.store
        if before is not None and is_ours and mark.term < before.term:
            raise WorkError(
                f"the call {mark.text} of term {mark.term} is not made: a replica that"
                f" leads in term {before.term} has made {before.text} meanwhile"
            )
        self.write_metadata(
            domain,
            marks.element_of(mark),
            prefix=marks.PREFIX,
            namespace=marks.NAMESPACE,
        )

    def read_mark(self, domain: Domain) -> Mark | None:
        """Return the last mark at a domain; None: there is none, or none is readable."""
        return marks.mark_in(self.read_metadata(domain, marks.NAMESPACE))

    # Stop and start

    def shut_down(self, domain: Domain, *, seconds: float) -> bool:
        """Stop a guest; return whether it shut down by itself in time."""
        deadline = time.monotonic() + seconds
        if seconds > 0:
            # Without an answer, it is ended below.
            try:
                self.do(domain, lambda handle: handle.shutdown())
            except WorkError:
                deadline = 0.0
        while time.monotonic() < deadline and not self.stop.is_set():
            if not self.do(domain, self._is_active):
                return True
            self.stop.wait(PAUSE_SECONDS)
        if self.stop.is_set():
            raise WorkError("the work was stopped")
        self.end(domain)
        return False

    def end(self, domain: Domain) -> None:
        """End the process of a domain, if it has one."""

        def destroy(handle: Any) -> None:
            try:
                handle.destroy()
            except self.hosts.api.libvirtError:
                if self._is_active(handle):
                    raise

        self.do(domain, destroy)

    def _is_active(self, handle: Any) -> bool:
        try:
            return bool(handle.isActive())
        except self.hosts.api.libvirtError as error:
            # A domain without a definition is gone when its process ends.
            return error.get_error_code() != NO_DOMAIN
