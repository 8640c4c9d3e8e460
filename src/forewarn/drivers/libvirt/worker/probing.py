"""The outcome of work whose program was lost.

It resumes a frozen guest. The hosts continue a migration, and it waits for the end.
"""

from __future__ import annotations

from . import disks, moving, states
from .domains import Domain, Domains
from .orders import (
    BEGUN,
    DONE,
    DONE_STATUS,
    DOWN_STATUS,
    RUNS_STATUS,
    STOPPED,
    UNKNOWN_STATUS,
    Order,
    WorkError,
)


def probe(domains: Domains, order: Order) -> tuple[int, list[str]]:
    """Return the exit status and the lines of the output of a probe."""
    try:
        if order.action in {"live-migrate", "redeploy"}:
            status = moving.state_of_move(domains, order)
            lines = [f"vm-host: {order.to_host}"] if status == DONE_STATUS else []
            return status, lines
        domain = domains.find(order.vm, order.host)
        if domain is None:
            is_deleted = order.action == "delete"
            return (DONE_STATUS if is_deleted else UNKNOWN_STATUS), []
        images = disks.unfinished(domains, domain)
        lines = [disks.unfinished_text(images)] if images else []
        return _state_of_work(domains, order, domain), lines
    except WorkError as error:
        return UNKNOWN_STATUS, [str(error)]


def _state_of_work(domains: Domains, order: Order, domain: Domain) -> int:
    runs = domain.is_active and domain.guest.presence != states.DOWN
    failed = RUNS_STATUS if runs else DOWN_STATUS
    mark = domains.read_mark(domain)
    if mark is None or mark.text != order.mark.text:
        return UNKNOWN_STATUS
    if mark.state != BEGUN:
        return DONE_STATUS if mark.state == DONE else failed
    if order.action == "freeze":
        if domain.state == states.PAUSED_STATE:
            domains.do(domain, lambda handle: handle.resume())
        return failed
    if order.action in {"pause", "stop"}:
        is_paused = domain.state == states.PAUSED_STATE
        # A guest that still shuts down would stop after the answer.
        return UNKNOWN_STATUS if runs and not is_paused else DONE_STATUS
    if order.action == "delete":
        return failed
    if not domain.is_active:
        return DOWN_STATUS
    is_paused = domain.state == states.PAUSED_STATE
    # Only a guest that the call had stopped is known to have been started again.
    return DONE_STATUS if mark.stop == STOPPED and not is_paused else UNKNOWN_STATUS
