"""Whether the hosts of an order can be emptied: asked before anything is planned.

The hosts are emptied one after the other, so the room of one is enough. An order is
refused if it is sure that no first host can be emptied: there are too few places, or
the rules for fault domains and zones leave none. What works on hosts now is ignored,
since it ends.
"""

from collections.abc import Sequence

from forewarn.control.rules import destinations
from forewarn.control.transactions.work import Work
from forewarn.fleet.capacity import UNLIMITED_PLACES, Capacity
from forewarn.problems import listed
from forewarn.protocol.blockers import AnyBlocker, HinderedError
from forewarn.protocol.operations import Request
from forewarn.store import kinds
from forewarn.store.port import PAGE_ROWS, every

TRIED_MAX = 4
"""Hosts for which places are searched. If there are more, and none of these can be
emptied, the order is taken: to search for a thousand would hold up the service."""


def check_hosts(work: Work, request: Request, hosts: Sequence[str]) -> None:
    """Raise RefusedError if it is sure that none of the hosts can be emptied."""
    rooms = [
        found
        for name in hosts
        if (found := work.tx.get(Capacity, name)) is not None and found.used
    ]
    if not rooms:
        return
    # Whoever does not need more places than one page has hosts with a free one is
    # served by this page, and so is every sum that is told.
    space = work.tx.ranked(kinds.ROOMS_WITH_SPACE, "", limit=PAGE_ROWS)
    own = {each.host: each.free for each in space}
    free = sum(own.values())
    fitting = [each for each in rooms if each.used <= free - own.get(each.host, 0)]
    if len(fitting) > TRIED_MAX:
        return
    reasons: dict[str, AnyBlocker] = {}
    for each in fitting:
        vms = list(every(work.tx, kinds.VMS_ON_HOST, each.host))
        blockers = destinations.find_in_time(work.tx, vms, request=request.request_id)
        if not blockers:
            return
        reasons[each.host] = blockers[0]
    least = min(fitting or rooms, key=lambda each: (each.used, each.host))
    because = reasons.get(least.host)
    raise HinderedError(
        f"none of these {len(hosts)} hosts can be emptied: {_sums(least, space)}",
        because=() if because is None else (because,),
        hint="empty one host first, or add one: the hosts of an order are emptied one "
        "after the other",
    )


def _sums(least: Capacity, space: Sequence[Capacity]) -> str:
    others = [each for each in space if each.host != least.host]
    unlimited = any(each.places == UNLIMITED_PLACES for each in others)
    free = "enough" if unlimited else str(sum(each.free for each in others))
    where = listed(
        [each.host if unlimited else f"{each.host} {each.free}" for each in others]
    )
    places = "1 place" if least.used == 1 else f"{least.used} places"
    return f"{least.host} needs {places}, and other hosts have {free} free" + (
        f" ({where})" if where else ""
    )
