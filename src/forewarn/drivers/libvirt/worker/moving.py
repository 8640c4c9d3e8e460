"""Moves of a VM to another host, with its memory or without."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import replace
from typing import Any

from . import disks, states
from .domains import (
    INACTIVE,
    KEEP_NVRAM,
    MIGRATABLE,
    SECURE,
    UNDEFINE_ALL,
    Domain,
    Domains,
)
from .orders import (
    ASKED,
    DONE,
    DONE_STATUS,
    DOWN_STATUS,
    RUNS_STATUS,
    STILL_RUNNING_STATUS,
    UNKNOWN_STATUS,
    Mark,
    NoDomainError,
    Order,
    UnreachableError,
    WorkError,
)

MIGRATE_LIVE, PEER2PEER, PERSIST_DEST, UNDEFINE_SOURCE = 1, 2, 8, 16
OFFLINE, AUTO_CONVERGE, POSTCOPY = 1 << 10, 1 << 13, 1 << 15
"""virDomainMigrateFlags."""

COMPLETED_JOB = 1
"""VIR_DOMAIN_JOB_STATS_COMPLETED."""

JOB_SECONDS = 0.5
"""Seconds between two checks of a migration."""

SETTLE_SECONDS = 600.0
"""Maximum seconds in which the outcome of a migration is determined after its connection was
lost: the hosts continue without it. After that time, the outcome is unknown."""

LIVE_MIGRATION, POST_COPY, CONVERGE = "live-migrate", "post-copy", "auto-converge"


# Traces of an earlier call


def marked(domains: Domains, order: Order) -> tuple[Domain, Mark | None]:
    """Return the domain on the VM's host and the last mark at it; raises WorkError.

    A VM that runs has its disks, so the note of an unfinished reimage is removed: an
    operator has made them by hand.
    """
    domain = domains.need(order.vm, order.host)
    if domain.is_active:
        disks.forget(domains, domain)
    return domain, domains.read_mark(domain)


def is_ours(order: Order, before: Mark | None) -> bool:
    """Return whether an earlier call of the same operation left a mark."""
    return before is not None and before.operation == order.mark.operation


def stays_off(order: Order, domain: Domain, before: Mark | None) -> bool:
    """Return whether the VM is off, and is not to be started.

    It is started if the last mark says that a call stopped it: one of this operation, or
    one that failed before it could start the VM.
    libvirt forgets when it is restarted, as with its host, whether a guest was shut down
    from inside. A half that starts VMs therefore starts only those that a call stopped.
    """
    if domain.is_active or domain.reason == states.OFF_SAVED:
        return False
    if before is not None and (
        before.has_stopped_guest or (before.stop and is_ours(order, before))
    ):
        return False
    is_half = order.action in {"start", "resume"}
    return domain.is_off or (is_half and not domain.guest.is_known)


def off_text(order: Order) -> list[str]:
    """Return the output about a VM that stays off."""
    return [f"{order.vm} did not run before, and stays so"]


def remove(domains: Domains, domain: Domain) -> None:
    """End a domain and remove its definition; its disks stay."""
    was_persistent = domains.is_persistent(domain)
    domains.end(domain)
    if was_persistent:
        domains.do(domain, lambda handle: handle.undefineFlags(UNDEFINE_ALL))


# With memory


def live_migrate(domains: Domains, order: Order) -> list[str]:
    """Move a VM by libvirt's peer-to-peer migration."""
    domain = domains.find(order.vm, order.host)
    if domain is None or domain.guest.presence == states.ELSEWHERE:
        return _moved_before(domains, order)
    is_running = domain.is_active
    if not is_running and not domain.is_off:
        raise WorkError(f"{order.vm} does not run on {order.host}: {domain.guest.text}")
    domains.write_mark(domain, order.mark)
    try:
        _migrate(domains, order, domain, is_running=is_running)
    except UnreachableError as error:
        _settle(domains, order, error)
    arrived = domains.need(order.vm, order.to_host)
    domains.write_mark(arrived, replace(order.mark, state=DONE))
    paused = _paused(domains, arrived) if is_running else []
    return [*paused, f"vm-host: {order.to_host}"]


def _moved_before(domains: Domains, order: Order) -> list[str]:
    """Return the output of a VM that an earlier call moved; raises NoDomainError."""
    domain = domains.find(order.vm, order.to_host)
    if domain is None or domain.guest.presence != states.HERE:
        # The error says that the domain is not where it should be.
        domains.need(order.vm, order.host)
        raise NoDomainError(f"{order.vm} runs neither on {order.host} nor elsewhere")
    domains.write_mark(domain, replace(order.mark, state=DONE))
    return [f"vm-host: {order.to_host}"]


def _migrate(
    domains: Domains, order: Order, domain: Domain, *, is_running: bool
) -> None:
    """Migrate, and call it off after SIGTERM; raises WorkError."""
    settings = domains.hosts.settings
    flags = PEER2PEER
    if domains.is_persistent(domain):
        flags |= PERSIST_DEST | UNDEFINE_SOURCE
    flags |= MIGRATE_LIVE if is_running else OFFLINE
    if is_running and settings.migration == CONVERGE:
        flags |= AUTO_CONVERGE
    if is_running and settings.migration == POST_COPY:
        flags |= POSTCOPY
    params: dict[str, Any] = {}
    if address := settings.data_uri_of(order.to_host):
        params[domains.hosts.api.VIR_MIGRATE_PARAM_URI] = address
    uri = settings.peer_uri_of(order.to_host)
    ended: queue.SimpleQueue[WorkError | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            domains.do(domain, lambda handle: handle.migrateToURI3(uri, params, flags))
            ended.put(None)
        except WorkError as error:
            ended.put(error)

    threading.Thread(target=run, name="migrate", daemon=True).start()
    failure = _until_ended(domains, domain, ended, is_postcopy=bool(flags & POSTCOPY))
    if failure is not None:
        raise failure


def _until_ended(
    domains: Domains,
    domain: Domain,
    ended: queue.SimpleQueue[WorkError | None],
    *,
    is_postcopy: bool,
) -> WorkError | None:
    """Return the failure of a migration; None: it has succeeded."""
    is_aborted = is_switched = False
    while True:
        try:
            return ended.get(timeout=JOB_SECONDS)
        except queue.Empty:
            pass
        try:
            if domains.stop.is_set() and not is_aborted:
                is_aborted = True
                domains.do(domain, lambda handle: handle.abortJob())
            elif is_postcopy and not is_switched and _has_copied_once(domains, domain):
                is_switched = True
                domains.do(domain, lambda handle: handle.migrateStartPostCopy(0))
        except WorkError:
            # The job ends at this moment, or the connection does.
            continue


def _has_copied_once(domains: Domains, domain: Domain) -> bool:
    """Return whether all memory has been copied once, so that little is left."""
    stats = domains.do(domain, lambda handle: handle.jobStats(0))
    return int(stats.get("memory_iteration", 0)) > 1


def _settle(domains: Domains, order: Order, error: WorkError) -> None:
    """Return when a VM whose migration was lost sight of has arrived.

    Raises WorkError if it has not, or if that is unknown.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    while not domains.stop.is_set() and time.monotonic() < deadline:
        status = state_of_move(domains, order)
        if status == DONE_STATUS:
            return
        if status == RUNS_STATUS:
            raise error
        domains.stop.wait(JOB_SECONDS)
    raise WorkError(f"the outcome of the migration is unknown: {error}")


def state_of_move(domains: Domains, order: Order) -> int:
    """Return the exit status of a probe: where a VM is that was to move."""
    try:
        there = domains.find(order.vm, order.to_host)
        if there is not None and there.guest.presence == states.HERE:
            return DONE_STATUS
        here = domains.find(order.vm, order.host)
        if here is None:
            return _state_at_end(order, there)
        if _has_job(domains, here):
            return STILL_RUNNING_STATUS
        if here.guest.presence == states.HERE:
            return RUNS_STATUS
        # The definition of a VM that is redeployed is on both hosts for a moment.
        if order.action == "redeploy" and not here.is_active:
            return DOWN_STATUS
    except WorkError:
        pass
    return UNKNOWN_STATUS


def _state_at_end(order: Order, there: Domain | None) -> int:
    """Return the status for a VM that its host does not have any more."""
    if there is None or there.is_active:
        return UNKNOWN_STATUS
    # A VM that was shut down from inside has moved without its memory.
    return DOWN_STATUS if order.action == "redeploy" else DONE_STATUS


def _has_job(domains: Domains, domain: Domain) -> bool:
    return domain.is_active and bool(
        domains.do(domain, lambda handle: handle.jobInfo()[0])
    )


def _paused(domains: Domains, arrived: Domain) -> list[str]:
    """Return the line with the time that the guest stood still, as QEMU measured it."""
    try:
        stats = domains.do(arrived, lambda handle: handle.jobStats(COMPLETED_JOB))
    except WorkError:
        return []
    return [f"paused: {stats['downtime']}ms"] if "downtime" in stats else []


# Without memory


def redeploy(domains: Domains, order: Order) -> list[str]:
    """Stop a VM and start it on another host.

    Its definition is on the other host before anything is stopped, so a crash at any line
    loses no VM. The mark moves with it, and says whether the VM is to be started.
    """
    domain = domains.find(order.vm, order.host)
    if domain is None:
        return _start_there(domains, order)
    if domain.reason == states.OFF_SAVED and not domain.is_active:
        raise WorkError(f"{order.vm} has saved memory on {order.host}: start it first")
    was_persistent = domains.is_persistent(domain)
    stop = "" if stays_off(order, domain, domains.read_mark(domain)) else ASKED
    domains.write_mark(domain, replace(order.mark, stop=stop))
    if not domain.is_active:
        disks.finish(domains, domain)
    flags = SECURE | MIGRATABLE | (INACTIVE if was_persistent else 0)
    xml = domains.do(domain, lambda handle: handle.XMLDesc(flags))
    domains.ask(order.to_host, lambda conn: conn.defineXML(xml))
    if domain.is_active:
        domains.shut_down(domain, seconds=domains.hosts.settings.shutdown)
    remove_if_there(domains, order.vm, order.host)
    lines = _start_there(domains, order)
    if not was_persistent:
        there = domains.need(order.vm, order.to_host)
        domains.do(there, lambda handle: handle.undefineFlags(KEEP_NVRAM))
    return lines


def remove_if_there(domains: Domains, vm: str, host: str) -> None:
    """Remove a domain, unless it went with its process."""
    domain = domains.find(vm, host)
    if domain is not None:
        remove(domains, domain)


def _start_there(domains: Domains, order: Order) -> list[str]:
    """Start a VM whose definition has moved, unless it was off before."""
    there = domains.need(order.vm, order.to_host)
    mark = domains.read_mark(there)
    if not there.is_active and (mark is None or not is_ours(order, mark)):
        raise WorkError(
            f"{order.host} has no domain {order.vm}, and that of {order.to_host} is not "
            "from this operation"
        )
    if not there.is_active and mark is not None and mark.stop:
        domains.do(there, lambda handle: handle.create())
    domains.write_mark(there, replace(order.mark, state=DONE))
    return [f"vm-host: {order.to_host}"]
