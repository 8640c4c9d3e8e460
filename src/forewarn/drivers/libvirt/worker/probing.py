"""The outcome of work whose program was lost.

A frozen guest runs again. A migration goes on in the hosts, and is waited for.
"""

from __future__ import annotations

from . import disks, moving, states
from .domains import Domains, Found
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
            said = [f"vm-host: {order.to_host}"] if status == DONE_STATUS else []
            return status, said
        found = domains.find(order.vm, order.host)
        if found is None:
            is_deleted = order.action == "delete"
            return (DONE_STATUS if is_deleted else UNKNOWN_STATUS), []
        images = disks.unfinished(domains, found)
        said = [disks.unfinished_text(images)] if images else []
        return _state_of_work(domains, order, found), said
    except WorkError as error:
        return UNKNOWN_STATUS, [str(error)]


def _state_of_work(domains: Domains, order: Order, found: Found) -> int:
    runs = found.is_active and found.seen.presence != states.DOWN
    failed = RUNS_STATUS if runs else DOWN_STATUS
    mark = domains.read_mark(found)
    if mark is None or mark.text != order.mark.text:
        return UNKNOWN_STATUS
    if mark.state != BEGUN:
        return DONE_STATUS if mark.state == DONE else failed
    if order.action == "freeze":
        if found.state == states.PAUSED_STATE:
            domains.do(found, lambda domain: domain.resume())
        return failed
    if order.action in {"pause", "stop"}:
        is_paused = found.state == states.PAUSED_STATE
        # A guest that still shuts down would stop after the answer.
        return UNKNOWN_STATUS if runs and not is_paused else DONE_STATUS
    if order.action == "delete":
        return failed
    if not found.is_active:
        return DOWN_STATUS
    is_paused = found.state == states.PAUSED_STATE
    # Only a guest that the call had stopped is known to have been started again.
    return DONE_STATUS if mark.stop == STOPPED and not is_paused else UNKNOWN_STATUS
