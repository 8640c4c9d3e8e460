"""The actions of the driver on one VM.

Each leaves the mark of its call at the domain before it changes anything, and again when
it has ended. It can be repeated after a failure. After SIGTERM, it lets a frozen guest run
and calls a migration off. A VM that its user has shut down stays off.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from . import disks, moving, states
from .domains import Domain, Domains
from .orders import (
    ASKED,
    DONE,
    DONE_STATUS,
    DOWN_STATUS,
    FAILED,
    RUNS_STATUS,
    STOPPED,
    UNKNOWN_STATUS,
    Mark,
    NoDomainError,
    Order,
    UnreachableError,
    WorkError,
)

RESUME_SECONDS = 60.0
"""Seconds in which a guest whose host was lost during a freeze is resumed: as long as a
restart of libvirt takes. The probe tries it again later."""

AGAIN_SECONDS = 1.0
"""Seconds between two attempts to resume it."""

EVENT_REBOOT = 1
"""VIR_DOMAIN_EVENT_ID_REBOOT."""


def carry_out(domains: Domains, order: Order) -> tuple[int, list[str]]:
    """Do the work; return the exit status and the lines of the output."""
    try:
        return DONE_STATUS, ACTIONS[order.action](domains, order)
    except WorkError as error:
        status, lines = _state_after_failure(domains, order)
        return status, [str(error), *lines]


def _state_after_failure(domains: Domains, order: Order) -> tuple[int, list[str]]:
    """Return the exit status and the line about the host of the VM."""
    status = UNKNOWN_STATUS
    for host in filter(None, (order.to_host, order.host)):
        try:
            domain = domains.find(order.vm, host)
            if domain is None or domain.guest.presence == states.ELSEWHERE:
                continue
            mark = domains.read_mark(domain)
            if mark is not None and mark.text == order.mark.text:
                is_stopped = mark.stop and not domain.is_active
                stop = STOPPED if is_stopped else mark.stop
                domains.write_mark(domain, replace(mark, state=FAILED, stop=stop))
        except WorkError:
            # The VM can run there.
            return UNKNOWN_STATUS, []
        if domain.guest.presence == states.HERE:
            return RUNS_STATUS, [f"vm-host: {host}"]
        status = DOWN_STATUS
    return status, []


def _done(domains: Domains, order: Order, domain: Domain) -> None:
    domains.write_mark(domain, replace(order.mark, state=DONE))


# Actions that keep the memory


def _freeze(domains: Domains, order: Order) -> list[str]:
    """Pause a guest for a time.

    A crash leaves it paused with the mark of this call: the probe resumes it, and so does
    a repeated call.
    """
    settings = domains.hosts.settings
    seconds = settings.freeze
    if order.seconds >= 0:
        # The VM was announced at most this duration.
        seconds = min(seconds, order.seconds)
    domain, before = moving.marked(domains, order)
    if not domain.is_active:
        return moving.off_text(order)
    _refuse_paused(order, domain, before)
    domains.write_mark(domain, order.mark)
    began = time.monotonic()
    try:
        domains.do(domain, lambda handle: handle.suspend())
        domains.stop.wait(seconds)
    finally:
        domain = _resume_surely(domains, order)
    paused = time.monotonic() - began
    if not domain.is_active:
        raise WorkError(f"{order.vm} has ended during the freeze: {domain.guest.text}")
    if domains.stop.is_set():
        raise WorkError("the freeze was stopped early")
    _done(domains, order, domain)
    return [f"paused: {round(paused * 1000)}ms"]


def _refuse_paused(order: Order, domain: Domain, before: Mark | None) -> None:
    """Raise WorkError if another than this operation has paused the guest."""
    is_paused = domain.state == states.PAUSED_STATE
    if (
        is_paused
        and domain.reason == states.USER_PAUSED
        and not moving.is_ours(order, before)
    ):
        raise WorkError(f"{order.vm} is paused already, by hand")


def _resume_surely(domains: Domains, order: Order) -> Domain:
    """Resume a guest, even if the connection is lost meanwhile; return its domain."""
    deadline = time.monotonic() + RESUME_SECONDS
    while True:
        try:
            domain = domains.need(order.vm, order.host)
            if domain.state == states.PAUSED_STATE:
                domains.do(domain, lambda handle: handle.resume())
            return domain
        except UnreachableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(AGAIN_SECONDS)


def _pause(domains: Domains, order: Order) -> list[str]:
    """Save the memory of a guest, or pause it.

    A crash leaves a mark that says that this call may have stopped it, so the other half
    and a repeated call continue from either state.
    """
    domain, before = moving.marked(domains, order)
    if domain.reason == states.OFF_SAVED and not domain.is_active:
        return []
    if not domain.is_active:
        return moving.off_text(order)
    if moving.is_ours(order, before) and domain.state == states.PAUSED_STATE:
        return []
    _refuse_paused(order, domain, before)
    stopping = replace(order.mark, stop=ASKED)
    domains.write_mark(domain, stopping)
    if domains.hosts.settings.pause == "suspend":
        domains.do(domain, lambda handle: handle.suspend())
    elif domains.is_persistent(domain):
        domains.do(domain, lambda handle: handle.managedSave(0))
    else:
        raise WorkError(
            f"{order.vm} has no persistent domain, so its memory cannot be saved: define "
            'it, or set driver.libvirt.pause = "suspend"'
        )
    domains.write_mark(domain, replace(stopping, state=DONE))
    return []


def _resume(domains: Domains, order: Order) -> list[str]:
    """Start a guest with its saved memory, or resume it.

    A crash before its end leaves a mark with `stop`: a repeated call starts it.
    """
    domain, before = moving.marked(domains, order)
    if moving.stays_off(order, domain, before):
        return moving.off_text(order)
    if not domain.is_active:
        _started(domains, order, domain)
        return []
    domains.write_mark(domain, replace(order.mark, stop=ASKED))
    if domain.state == states.PAUSED_STATE:
        domains.do(domain, lambda handle: handle.resume())
    _done(domains, order, domain)
    return []


# Actions that restart or end the guest


def _reboot(domains: Domains, order: Order) -> list[str]:
    """Stop and start a guest.

    A crash in between leaves it off with a mark that says that a call stopped it. The next
    reboot, redeployment or start of any operation starts it.
    """
    domain, before = moving.marked(domains, order)
    if moving.stays_off(order, domain, before):
        return moving.off_text(order)
    if not domains.is_persistent(domain):
        return _reset(domains, order, domain)
    lines = _stopped(domains, order, domain)
    _started(domains, order, domain)
    return lines


def _stopped(domains: Domains, order: Order, domain: Domain) -> list[str]:
    """Stop a guest that is to be started again; return the output."""
    if not domain.is_active:
        return []
    domains.write_mark(domain, replace(order.mark, stop=ASKED))
    return _stop_guest(domains, order, domain)


def _started(domains: Domains, order: Order, domain: Domain) -> None:
    """Start a guest that does not run. With saved memory, it continues where it was."""
    domains.write_mark(domain, replace(order.mark, stop=STOPPED))
    disks.finish(domains, domain)
    domains.do(domain, lambda handle: handle.create())
    _done(domains, order, domain)


def _stop_guest(domains: Domains, order: Order, domain: Domain) -> list[str]:
    seconds = domains.hosts.settings.shutdown
    if domains.shut_down(domain, seconds=seconds) or not seconds:
        return []
    return [f"{order.vm} did not shut down in time, and was ended"]


def _reset(domains: Domains, order: Order, domain: Domain) -> list[str]:
    """Restart a guest in its process, because its domain ends with that."""
    seconds = domains.hosts.settings.shutdown
    domains.write_mark(domain, order.mark)
    has_restarted = False
    if seconds > 0:
        has_restarted = _asked_to_restart(domains, domain, seconds=seconds)
    if not has_restarted:
        domains.do(domain, lambda handle: handle.reset(0))
    _done(domains, order, domain)
    if seconds > 0 and not has_restarted:
        return [f"{order.vm} did not restart in time, and was reset"]
    return []


def _asked_to_restart(domains: Domains, domain: Domain, *, seconds: float) -> bool:
    """Ask a guest to restart; return whether it did in time."""
    heard: list[bool] = []

    def on_reboot(*_: object) -> None:
        heard.append(True)

    def ask(conn: object) -> int:
        del conn
        connection = domain.handle.connect()
        number = connection.domainEventRegisterAny(
            domain.handle, EVENT_REBOOT, on_reboot, None
        )
        domain.handle.reboot(0)
        return int(number)

    number = domains.ask(domain.host, ask)
    deadline = time.monotonic() + seconds
    while not heard and time.monotonic() < deadline and not domains.stop.is_set():
        domains.stop.wait(AGAIN_SECONDS / 10)
    domains.ask(domain.host, lambda conn: conn.domainEventDeregisterAny(number))
    return bool(heard)


def _stop(domains: Domains, order: Order) -> list[str]:
    """Stop a guest that the other half starts again.

    A crash leaves a mark that says that this call may have stopped it, so `_start` starts
    it whether it shut down or was ended.
    """
    domain, before = moving.marked(domains, order)
    if not domain.is_active:
        if moving.stays_off(order, domain, before):
            return moving.off_text(order)
        return []
    if not domains.is_persistent(domain):
        raise WorkError(
            f"{order.vm} has no persistent domain, so it could not be started again"
        )
    # A later call that finds the guest off then knows that it starts it again.
    stopping = replace(order.mark, stop=ASKED)
    domains.write_mark(domain, stopping)
    lines = _stop_guest(domains, order, domain)
    domains.write_mark(domain, replace(stopping, state=DONE))
    return lines


def _start(domains: Domains, order: Order) -> list[str]:
    """Start a guest that the other half has stopped; one that its user shut down stays off."""
    domain, before = moving.marked(domains, order)
    if not domain.is_active:
        if moving.stays_off(order, domain, before):
            return moving.off_text(order)
        _started(domains, order, domain)
    else:
        _done(domains, order, domain)
    return [f"vm-host: {order.host}"]


def _delete(domains: Domains, order: Order) -> list[str]:
    """End a domain and remove its definition; a repeated call finds nothing to do."""
    try:
        domain, _ = moving.marked(domains, order)
    except NoDomainError:
        return []
    domains.write_mark(domain, order.mark)
    moving.remove(domains, domain)
    return []


def _reimage(domains: Domains, order: Order) -> list[str]:
    """Replace the disks of a VM and start it.

    After a crash, the mark says whether the VM is to be started, and the note of `disks`
    names the disks that may be missing. A later call of any operation continues from there.
    """
    domain, before = moving.marked(domains, order)
    if not domains.is_persistent(domain):
        raise WorkError(f"{order.vm} has no persistent domain, so it would be lost")
    images = disks.images_of(domains, domain)
    stays_off = moving.stays_off(order, domain, before)
    domains.write_mark(domain, replace(order.mark, stop="" if stays_off else ASKED))
    lines = _stopped(domains, order, domain)
    disks.recreate(domains, domain, images)
    if stays_off:
        _done(domains, order, domain)
    else:
        _started(domains, order, domain)
    return lines


ACTIONS: dict[str, Callable[[Domains, Order], list[str]]] = {
    "freeze": _freeze,
    "live-migrate": moving.live_migrate,
    "reboot": _reboot,
    "redeploy": moving.redeploy,
    "reimage": _reimage,
    "delete": _delete,
    "pause": _pause,
    "resume": _resume,
    "stop": _stop,
    "start": _start,
}
