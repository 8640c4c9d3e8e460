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
    Domains,
    Found,
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
"""Seconds between two looks at a migration."""

SETTLE_SECONDS = 600.0
"""Seconds in which the outcome of a migration is looked for whose connection was lost: the
hosts go on without it. After that time, the outcome is unknown."""

LIVE_MIGRATION, POST_COPY, CONVERGE = "live-migrate", "post-copy", "auto-converge"


# Traces of an earlier call


def marked(domains: Domains, order: Order) -> tuple[Found, Mark | None]:
    """Return the domain on the VM's host and the last mark at it; raises WorkError.

    A VM that runs has its disks, so the note of an unfinished reimage is removed: an
    operator has made them by hand.
    """
    found = domains.need(order.vm, order.host)
    if found.is_active:
        disks.forget(domains, found)
    return found, domains.read_mark(found)


def is_ours(order: Order, before: Mark | None) -> bool:
    """Return whether an earlier call of the same operation left a mark."""
    return before is not None and before.operation == order.mark.operation


def stays_off(order: Order, found: Found, before: Mark | None) -> bool:
    """Return whether the VM is off, and is not to be started.

    It is started if the last mark says that a call stopped it: one of this operation, or
    one that failed before it could start the VM.
    libvirt forgets when it is restarted, as with its host, whether a guest was shut down
    from inside. A half that starts VMs therefore starts only those that a call stopped.
    """
    if found.is_active or found.reason == states.OFF_SAVED:
        return False
    if before is not None and (
        before.has_stopped_guest or (before.stop and is_ours(order, before))
    ):
        return False
    is_half = order.action in {"start", "resume"}
    return found.is_off or (is_half and not found.seen.is_known)


def off_text(order: Order) -> list[str]:
    """Return the output about a VM that stays off."""
    return [f"{order.vm} did not run before, and stays so"]


def remove(domains: Domains, found: Found) -> None:
    """End a domain and remove its definition; its disks stay."""
    was_persistent = domains.is_persistent(found)
    domains.end(found)
    if was_persistent:
        domains.do(found, lambda domain: domain.undefineFlags(UNDEFINE_ALL))


# With memory


def live_migrate(domains: Domains, order: Order) -> list[str]:
    """Move a VM by libvirt's peer-to-peer migration."""
    found = domains.find(order.vm, order.host)
    if found is None or found.seen.presence == states.ELSEWHERE:
        return _moved_before(domains, order)
    is_running = found.is_active
    if not is_running and not found.is_off:
        raise WorkError(f"{order.vm} does not run on {order.host}: {found.seen.text}")
    domains.write_mark(found, order.mark)
    try:
        _migrate(domains, order, found, is_running=is_running)
    except UnreachableError as error:
        _settle(domains, order, error)
    arrived = domains.need(order.vm, order.to_host)
    domains.write_mark(arrived, replace(order.mark, state=DONE))
    paused = _paused(domains, arrived) if is_running else []
    return [*paused, f"vm-host: {order.to_host}"]


def _moved_before(domains: Domains, order: Order) -> list[str]:
    """Return the output of a VM that an earlier call moved; raises NoDomainError."""
    found = domains.find(order.vm, order.to_host)
    if found is None or found.seen.presence != states.HERE:
        # The error says that the domain is not where it should be.
        domains.need(order.vm, order.host)
        raise NoDomainError(f"{order.vm} runs neither on {order.host} nor elsewhere")
    domains.write_mark(found, replace(order.mark, state=DONE))
    return [f"vm-host: {order.to_host}"]


def _migrate(domains: Domains, order: Order, found: Found, *, is_running: bool) -> None:
    """Migrate, and call it off after SIGTERM; raises WorkError."""
    settings = domains.hosts.settings
    flags = PEER2PEER
    if domains.is_persistent(found):
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
            domains.do(found, lambda domain: domain.migrateToURI3(uri, params, flags))
            ended.put(None)
        except WorkError as error:
            ended.put(error)

    threading.Thread(target=run, name="migrate", daemon=True).start()
    failure = _until_ended(domains, found, ended, is_postcopy=bool(flags & POSTCOPY))
    if failure is not None:
        raise failure


def _until_ended(
    domains: Domains,
    found: Found,
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
                domains.do(found, lambda domain: domain.abortJob())
            elif is_postcopy and not is_switched and _has_copied_once(domains, found):
                is_switched = True
                domains.do(found, lambda domain: domain.migrateStartPostCopy(0))
        except WorkError:
            # The job ends at this moment, or the connection does.
            continue


def _has_copied_once(domains: Domains, found: Found) -> bool:
    """Return whether all memory has been copied once, so that little is left."""
    stats = domains.do(found, lambda domain: domain.jobStats(0))
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
        if there is not None and there.seen.presence == states.HERE:
            return DONE_STATUS
        here = domains.find(order.vm, order.host)
        if here is None:
            return _state_at_end(order, there)
        if _has_job(domains, here):
            return STILL_RUNNING_STATUS
        if here.seen.presence == states.HERE:
            return RUNS_STATUS
        # The definition of a VM that is redeployed is on both hosts for a moment.
        if order.action == "redeploy" and not here.is_active:
            return DOWN_STATUS
    except WorkError:
        pass
    return UNKNOWN_STATUS


def _state_at_end(order: Order, there: Found | None) -> int:
    """Return the status for a VM that its host does not have any more."""
    if there is None or there.is_active:
        return UNKNOWN_STATUS
    # A VM that was shut down from inside has moved without its memory.
    return DOWN_STATUS if order.action == "redeploy" else DONE_STATUS


def _has_job(domains: Domains, found: Found) -> bool:
    return found.is_active and bool(
        domains.do(found, lambda domain: domain.jobInfo()[0])
    )


def _paused(domains: Domains, arrived: Found) -> list[str]:
    """Return the line with the time that the guest stood still, as QEMU measured it."""
    try:
        stats = domains.do(arrived, lambda domain: domain.jobStats(COMPLETED_JOB))
    except WorkError:
        return []
    return [f"paused: {stats['downtime']}ms"] if "downtime" in stats else []


# Without memory


def redeploy(domains: Domains, order: Order) -> list[str]:
    """Stop a VM and start it on another host.

    Its definition is on the other host before anything is stopped, so a crash at any line
    loses no VM. The mark moves with it, and says whether the VM is to be started.
    """
    found = domains.find(order.vm, order.host)
    if found is None:
        return _start_there(domains, order)
    if found.reason == states.OFF_SAVED and not found.is_active:
        raise WorkError(f"{order.vm} has saved memory on {order.host}: start it first")
    was_persistent = domains.is_persistent(found)
    stop = "" if stays_off(order, found, domains.read_mark(found)) else ASKED
    domains.write_mark(found, replace(order.mark, stop=stop))
    if not found.is_active:
        disks.finish(domains, found)
    flags = SECURE | MIGRATABLE | (INACTIVE if was_persistent else 0)
    xml = domains.do(found, lambda domain: domain.XMLDesc(flags))
    domains.ask(order.to_host, lambda conn: conn.defineXML(xml))
    if found.is_active:
        domains.shut_down(found, seconds=domains.hosts.settings.shutdown)
    remove_if_there(domains, order.vm, order.host)
    said = _start_there(domains, order)
    if not was_persistent:
        there = domains.need(order.vm, order.to_host)
        domains.do(there, lambda domain: domain.undefineFlags(KEEP_NVRAM))
    return said


def remove_if_there(domains: Domains, vm: str, host: str) -> None:
    """Remove a domain, unless it went with its process."""
    found = domains.find(vm, host)
    if found is not None:
        remove(domains, found)


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
        domains.do(there, lambda domain: domain.create())
    domains.write_mark(there, replace(order.mark, state=DONE))
    return [f"vm-host: {order.to_host}"]
