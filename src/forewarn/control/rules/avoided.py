"""The hosts to which a driver should move no VM, if it chooses the hosts.

Each call names them as they are when it is made. Nothing is stored.
"""

from dataclasses import replace

from forewarn.drivers.port import Call
from forewarn.protocol.operations import MOVING_ACTIONS, Operation
from forewarn.store import kinds
from forewarn.store.port import Reader

AVOIDED_MAX = 250
"""Maximum number of hosts in a call, closed hosts first. The longest names then fit into
one argument of a program, for which Linux has a limit of 128 KiB."""


def with_avoided(reader: Reader, operation: Operation, call: Call) -> Call:
    """Return the call with the hosts to avoid, if the driver chooses."""
    if not operation.driver_chooses or call.action not in MOVING_ACTIONS:
        return call
    away = reader.select(kinds.ROOMS_AWAY, limit=AVOIDED_MAX)
    closed = {room.host for room in away} - {call.host}
    left = AVOIDED_MAX - len(away)
    silent = reader.select(kinds.RELAYS_SILENT, limit=left) if left else ()
    closed |= {link.host for link in silent} - {call.host}
    left -= len(silent)
    next_ones = (
        reader.ranked(
            kinds.PLANNED_BY_POSITION, operation.request, limit=left, lowest=True
        )
        if left
        else ()
    )
    waiting = dict.fromkeys(
        planned.host for planned in next_ones if planned.host not in closed
    )
    waiting.pop(call.host, None)
    return replace(call, closed=tuple(sorted(closed)), waiting=tuple(waiting))
